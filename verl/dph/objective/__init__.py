"""What is optimised. Nothing here knows how a run is started, sampled or saved.

A step has two sets of rows (docs/explanation/method.md). D_exp are responses that the policy pi_theta has just sampled,
with a reward; D_pef are stored responses of the initial policy pi_ref, with its log-probs. An anchor is a second set of
stored responses, to other prompts, with a share of the rows and a weight of its own. For one optimizer mini-batch

    L = policy_loss_coeff L_policy(D_exp) + eta [ sum over D_pef tokens of f~(u) + w sum over D_exp tokens of g ] / N

    L_policy   verl's clipped policy loss, with the advantages of advantages.py and the success cap of success_cap.py,
               and verl's entropy and KL terms: a token mean over D_exp.
    f~(u)      a divergence D_f(pi_theta || pi_ref), u = pi_theta / pi_ref of the stored token: the generator form. It
               needs no reference model. An anchor adds the same sum over its tokens, with its own weight.
    g          stopgrad(f'(u) - f'(1)) log pi_theta: the policy form of a divergence, on the policy's own tokens. It
               needs a reference model. w balances it with the first sum; `js` alone has both.
    N          joint: the tokens of all sets, for L_policy too. per_set: the tokens of each sum's own set. They are
               counted over the whole mini-batch, so that neither ranks nor micro-batches change the gradient.
    eta        the weight of the divergence in this step.

Read in this order:

    advantages.py, success_cap.py   what the rewards and verdicts of a group make of its tokens
    f_divergences.py                each divergence, as a function of log u, and its two estimators
    terms.py                        which divergence a mode has on D_pef and on D_exp
    rehearsal.py                    L, for a micro-batch
    log_probs.py                    log-probs of tokens from logits, with which our workers replace verl's
    eta.py                          eta of every step

verl/dph/training/trainer.py is the step around it; its terms are resolved once, when the workers get the loss.
"""
