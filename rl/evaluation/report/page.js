// Long parts are folded on a phone. A link to a part that is folded unfolds it.
(() => {
  const parts = [...document.querySelectorAll("details.fold")];
  if (matchMedia("(max-width: 640px)").matches) parts.forEach((part) => (part.open = false));
  const unfold = () => {
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    parts.filter((part) => target && target.contains(part)).forEach((part) => (part.open = true));
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  unfold();
})();

// The question browser: pick or filter a question, and read the first answers of every model side by side.
(() => {
  const { splits, texts } = JSON.parse(document.getElementById("answers-data").textContent);
  const form = document.querySelector(".controls");
  const { split: splitBox, filter: filterBox, question: questionBox, previous, next } = form.elements;
  const part = document.querySelector(".part");
  const asked = document.querySelector(".asked");
  const reference = document.querySelector(".reference");
  const columns = document.querySelector(".columns-of-answers");

  const element = (name, text = "", properties = {}) =>
    Object.assign(document.createElement(name), { textContent: text }, properties);
  const chosen = () => splits[splitBox.value];

  const strip = (cells, fills) => {
    const bar = element("div", "", { className: "strip" });
    bar.append(...cells.map((kind) => Object.assign(element("i"), { style: `background:${fills[kind]}` })));
    return bar;
  };

  const answer = ({ response: [text, kind, style, verdict, rows], times }, { fills, styles, right }) => {
    const isRight = right.includes(kind);
    const card = element("li", "", { className: isRight ? "right" : "" });
    if (styles.length) {
      const chip = element("b", styles[style], { className: "chip" });
      if (isRight) chip.style.background = fills[kind];
      card.append(chip);
    }
    const size = rows === null ? "" : ` · ${rows} ${rows === 1 ? "row" : "rows"}`;
    const again = times > 1 ? ` · ×${times}` : "";
    card.append(element("span", `${isRight ? "✓" : "✗"} ${verdict}${size}${again}`), element("pre", texts[text]));
    return card;
  };

  // Equal responses are shown once, in the place of the first.
  const distinct = (responses) => {
    const found = new Map();
    responses.forEach((response) => {
      const key = response.join();
      if (!found.has(key)) found.set(key, { response, times: 0 });
      found.get(key).times += 1;
    });
    return [...found.values()];
  };

  const mark = (row) => {
    document.querySelectorAll(".mark").forEach((old) => old.remove());
    document.querySelectorAll(`.panels[data-split="${splitBox.value}"] .cells`).forEach((block) => {
      const { start, rows } = block.dataset;
      if (row < +start || row >= +start + +rows) return;
      const height = 100 / rows;
      block.append(element("div", "", { className: "mark", style: `top:${(row - start) * height}%;height:${height}%` }));
    });
  };

  // Below the grid, a tapped row: its question, and each model's answers in a strip that is high enough to see.
  let tapped = false;
  const button = (text, label, act, disabled = false) => {
    const made = element("button", text, { type: "button", ariaLabel: label, disabled });
    made.addEventListener("click", act);
    return made;
  };

  const pick = ({ text, cells }, { models, right, fills }) => {
    document.querySelectorAll(".picked").forEach((box) => {
      box.hidden = !tapped || box.dataset.split !== splitBox.value;
      if (box.hidden) return;
      const list = element("ul");
      models.forEach((name, i) => {
        const correct = cells[i].filter((kind) => right.includes(kind)).length;
        const line = element("li", `${name}: ${correct} of ${cells[i].length} correct`);
        line.append(strip(cells[i], fills));
        list.append(line);
      });
      const read = () => {
        document.querySelector("#questions details").open = true;
        document.getElementById("questions").scrollIntoView();
        questionBox.focus({ preventScroll: true });
      };
      box.replaceChildren(
        element("p", text),
        list,
        button("↑", "Row above", () => step(-1), previous.disabled),
        button("↓", "Row below", () => step(1), next.disabled),
        button("Read the answers", "Read the answers", read),
      );
    });
  };

  const show = () => {
    const split = chosen();
    const question = split.questions[questionBox.value];
    const options = [...questionBox.options];
    form.querySelector("output").value = `${questionBox.selectedIndex + 1} of ${options.length}`;
    previous.disabled = questionBox.selectedIndex <= 0;
    next.disabled = questionBox.selectedIndex >= options.length - 1;
    part.hidden = split.of === split.questions.length;
    part.textContent = `Of the ${split.of} questions, ${split.questions.length} can be read here, drawn with a fixed seed.`;
    asked.textContent = question.text;
    reference.hidden = question.reference === undefined;
    reference.querySelector("pre").textContent = texts[question.reference] ?? "";
    columns.replaceChildren(
      ...split.models.map((name, i) => {
        const column = element("div");
        const correct = question.cells[i].filter((kind) => split.right.includes(kind)).length;
        const list = element("ol");
        list.append(...distinct(question.responses[i]).map((card) => answer(card, split)));
        const shown = question.responses[i].length;
        const tally = element("p", `${correct} of ${question.cells[i].length} correct; the first ${shown}:`);
        column.append(element("h3", name), tally, strip(question.cells[i], split.fills), list);
        return column;
      }),
    );
    mark(question.row);
    pick(question, split);
  };

  const fillQuestions = (row) => {
    const rows = chosen().filters[filterBox.value].rows;
    questionBox.replaceChildren(...rows.map((i) => element("option", chosen().questions[i].text, { value: i })));
    questionBox.value = rows.includes(row) ? row : rows[0];
    show();
  };

  const fillFilters = (filter, row) => {
    const groups = new Map([["", filterBox]]);
    filterBox.replaceChildren();
    chosen().filters.forEach(({ group, name, rows }, i) => {
      if (!groups.has(group)) {
        groups.set(group, element("optgroup", "", { label: group }));
        filterBox.append(groups.get(group));
      }
      groups.get(group).append(element("option", `${name} (${rows.length})`, { value: i }));
    });
    filterBox.value = filter;
    fillQuestions(row);
  };

  const step = (by) => {
    questionBox.selectedIndex += by;
    show();
  };

  splitBox.append(...splits.map(({ name }, i) => element("option", name, { value: i })));
  splitBox.parentElement.hidden = splits.length < 2;
  splitBox.addEventListener("change", () => fillFilters(chosen().start));
  filterBox.addEventListener("change", () => fillQuestions());
  questionBox.addEventListener("change", show);
  previous.addEventListener("click", () => step(-1));
  next.addEventListener("click", () => step(1));
  form.addEventListener("submit", (event) => event.preventDefault());
  document.querySelectorAll(".cells").forEach((block) =>
    block.addEventListener("click", ({ clientY }) => {
      const { top, height } = block.getBoundingClientRect();
      const { start, rows } = block.dataset;
      splitBox.value = block.closest(".panels").dataset.split;
      const row = +start + Math.min(rows - 1, Math.floor(((clientY - top) / height) * rows));
      const distances = chosen().questions.map((question) => Math.abs(question.row - row));
      tapped = true;
      fillFilters(0, distances.indexOf(Math.min(...distances)));
    }),
  );
  document.querySelectorAll(".script, .without-script").forEach((part) => (part.hidden = !part.hidden));
  fillFilters(chosen().start);
})();
