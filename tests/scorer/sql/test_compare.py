"""`bird` and `spider` against their published rules (docs/reference/scorer.md), on the database `league`.

bird: set(predicted rows) == set(gold rows), of the rows as sqlite3 returns them. spider (Zhong et al. 2020): equal bags
of rows under some permutation of the columns; equal lists, under one permutation, where gold has a top-level ORDER BY;
DISTINCT is kept. The expected values are derived by hand. docs/reference/scorer.md lists the
differences from the official programs under "Compared with the official evaluators".
"""

from collections.abc import Iterator

from tests.scorer.conftest import LEAGUE, Scorer, make_database, question

# Which methods find them equal, gold ~ prediction.
CASES = r"""
# Rows: bird compares sets, spider bags.
both    SELECT name FROM player  ~  SELECT name FROM player ORDER BY id DESC
bird    SELECT DISTINCT team FROM player  ~  SELECT team FROM player
bird    SELECT team FROM player  ~  SELECT DISTINCT team FROM player
both    SELECT DISTINCT team FROM player  ~  SELECT team FROM player GROUP BY team
bird    SELECT id FROM player  ~  SELECT id FROM player UNION ALL SELECT id FROM player
bird    SELECT a FROM pair  ~  SELECT b FROM pair
both    SELECT a FROM pair  ~  VALUES (1), (1), (2)
none    SELECT id FROM player  ~  SELECT id FROM player WHERE id < 6
none    SELECT id FROM player WHERE id < 6  ~  SELECT id FROM player
none    SELECT 1 UNION ALL SELECT 2  ~  SELECT 1 UNION ALL SELECT 1
both    SELECT id FROM player EXCEPT SELECT player FROM game  ~  VALUES (3), (4), (6)
both    WITH p AS (SELECT * FROM player) SELECT id FROM p  ~  SELECT id -- all\nFROM player;
# Columns: bird keeps their order, spider does not.
spider  SELECT id, name FROM player  ~  SELECT name, id FROM player
spider  SELECT * FROM player  ~  SELECT joined, goals, id, rating, team, name FROM player ORDER BY name
none    SELECT name FROM player  ~  SELECT name, id FROM player
none    SELECT name, id FROM player  ~  SELECT name FROM player
none    SELECT name FROM player  ~  SELECT name, name FROM player
both    SELECT a, a, b FROM pair  ~  SELECT a AS x, a AS y, b AS z FROM pair
spider  SELECT a, a, b FROM pair  ~  SELECT b, a, a FROM pair
none    SELECT 1, id, 1 FROM player  ~  SELECT id, 1, 2 FROM player
none    VALUES (1, 'x'), (2, 'y')  ~  VALUES (1, 'y'), (2, 'x')
none    VALUES (1, 2), (3, 4)  ~  VALUES (1, 2), (4, 3)
spider  VALUES (1, 2), (3, 4)  ~  VALUES (4, 3), (2, 1)
both    VALUES (1, 2), (2, 1)  ~  VALUES (2, 1), (1, 2)
# Results without rows are equal.
both    SELECT a FROM vacant  ~  SELECT id FROM player WHERE id > 6
both    SELECT a, b FROM vacant  ~  SELECT a FROM vacant
none    SELECT a FROM vacant  ~  SELECT max(a) FROM vacant
none    SELECT name FROM player  ~  SELECT name FROM player WHERE 0
none    SELECT a FROM vacant  ~  SELECT ''
# NULL equals NULL and nothing else.
both    SELECT team FROM player WHERE id = 4  ~  SELECT NULL
both    SELECT 1 / 0, sum(a) FROM vacant  ~  SELECT team, team FROM player WHERE id = 4
bird    SELECT NULL UNION ALL SELECT NULL  ~  SELECT NULL
none    VALUES (1, NULL), (2, 3)  ~  VALUES (1, 3), (2, NULL)
none    SELECT NULL  ~  SELECT ''
none    SELECT NULL  ~  SELECT 'NULL'
none    SELECT id, goals FROM player  ~  SELECT id, ifnull(goals, 0) FROM player
# Numbers compare as Python has it: 2^53 + 1 has no float, so it is compared with 2^53 exactly.
both    SELECT 1  ~  SELECT 1.0
bird    SELECT 1 UNION ALL SELECT 1.0  ~  SELECT 1
spider  SELECT goals, id FROM player  ~  SELECT id, goals * 1.0 FROM player
none    SELECT 1  ~  SELECT '1'
none    VALUES (1, '1'), (2, '3')  ~  VALUES ('1', 1), (2, '3')
both    SELECT 3 > 2  ~  SELECT 1
none    SELECT TRUE  ~  SELECT 'true'
none    SELECT 0.1 + 0.2  ~  SELECT 0.3
both    SELECT round(0.1 + 0.2, 2)  ~  SELECT 0.3
none    SELECT 7 / 2  ~  SELECT 7 / 2.0
none    VALUES (-1, -2)  ~  VALUES (-1, -1)
both    SELECT -0.0  ~  SELECT 0
both    SELECT 9e999  ~  SELECT 1e999
none    SELECT 9e999  ~  SELECT -9e999
both    SELECT 9007199254740992  ~  SELECT 9007199254740992.0
none    SELECT 9007199254740993  ~  SELECT 9007199254740993.0
both    SELECT v FROM cell WHERE kind = 'int'  ~  SELECT 1.0
# Texts and blobs are compared as they are.
none    SELECT name FROM player  ~  SELECT upper(name) FROM player
none    SELECT word FROM word WHERE id = 9  ~  SELECT word FROM word WHERE id = 8
none    SELECT word FROM word WHERE id = 1  ~  SELECT word FROM word WHERE id = 2
both    SELECT word FROM word WHERE id = 1  ~  SELECT 'caf' || char(233)
both    SELECT word FROM word WHERE id = 6  ~  SELECT '🙂'
none    SELECT word FROM word WHERE id = 3  ~  SELECT upper('café')
none    SELECT 'a' || char(0) || 'b'  ~  SELECT 'a'
none    SELECT date('2020-01-05')  ~  SELECT datetime('2020-01-05')
none    SELECT strftime('%Y', '2020-01-05')  ~  SELECT 2020
both    SELECT v FROM cell WHERE kind = 'bytes'  ~  SELECT x'00FF'
none    SELECT x'00ff'  ~  SELECT x'00fe'
none    SELECT v FROM cell WHERE kind = 'blob'  ~  SELECT v FROM cell WHERE kind = 'text'
both    SELECT CAST(x'31' AS TEXT)  ~  SELECT '1'
none    SELECT x''  ~  SELECT ''
# Wanted, and more lenient than the official evaluations.
both    SELECT word FROM word WHERE id = 11  ~  SELECT 'ab'
both    SELECT id FROM player WHERE goals >= 3  ~  SELECT id FROM player WHERE goals > = 3
none    SELECT '>='  ~  SELECT '> ='
both    SELECT YEAR(CURDATE()) - 2000  ~  SELECT 20
# An ORDER BY that is not gold's own, at its top level, counts for neither.
both    SELECT id FROM player  ~  SELECT id FROM player ORDER BY id DESC
both    SELECT id FROM (SELECT id FROM player ORDER BY id DESC)  ~  SELECT id FROM player
both    WITH p AS (SELECT id FROM player ORDER BY id DESC) SELECT id FROM p  ~  SELECT id FROM player
both    SELECT id FROM player WHERE id > (SELECT id FROM player ORDER BY id LIMIT 1)  ~  VALUES (6), (5), (4), (3), (2)
both    SELECT id, row_number() OVER (ORDER BY id) FROM player  ~  SELECT id, id FROM player ORDER BY id DESC
both    SELECT ' order by ', id FROM player  ~  SELECT ' order by ', id FROM player ORDER BY -id
both    SELECT id AS "order by" FROM player  ~  SELECT id FROM player ORDER BY id DESC
both    SELECT id FROM player -- ORDER BY id  ~  SELECT id FROM player ORDER BY id DESC
# Where gold orders its result. Dot and Ben are tied at a rating of 6; gold lists Ben first, as its second key says.
both    SELECT id FROM player ORDER BY id DESC  ~  SELECT id FROM player ORDER BY -id
bird    SELECT id FROM player ORDER BY id DESC  ~  SELECT id FROM player ORDER BY id
both    SELECT id FROM player ORDER BY id  ~  SELECT id FROM player
bird    SELECT id FROM player ORDER BY id  ~  SELECT id FROM player ORDER BY joined
bird    SELECT name FROM player WHERE rating = 6 ORDER BY rating, name  ~  VALUES ('Dot'), ('Ben')
both    SELECT rating FROM player WHERE rating = 6 ORDER BY rating, name  ~  VALUES (6.0), (6)
spider  SELECT id, team FROM player ORDER BY id  ~  SELECT team, id FROM player
none    SELECT id, name FROM player ORDER BY id  ~  SELECT name, id FROM player ORDER BY id DESC
both    SELECT 1, 2 UNION SELECT 2, 1 ORDER BY 1  ~  VALUES (2, 1), (1, 2)
bird    SELECT id FROM player ORDER BY id DESC LIMIT 2  ~  VALUES (5), (6)
bird    SELECT 1 UNION SELECT 2 ORDER BY 1 DESC  ~  SELECT 1 UNION ALL SELECT 2
bird    select id from player order\n\tby id desc  ~  SELECT id FROM player
bird    SELECT id FROM player ORDER /* by */ BY id DESC  ~  SELECT id FROM player
bird    WITH p AS (SELECT 1) SELECT id FROM player ORDER BY id DESC  ~  SELECT id FROM player
bird    SELECT id FROM (SELECT id FROM player ORDER BY id DESC) ORDER BY id  ~  SELECT id FROM player ORDER BY id DESC
spider  SELECT 10, 100 ORDER BY 1  ~  SELECT 100, 10.0
none    SELECT id FROM player ORDER BY id LIMIT 2  ~  SELECT id FROM player ORDER BY id LIMIT 2 OFFSET 1
bird    SELECT a FROM pair ORDER BY a  ~  SELECT b FROM pair ORDER BY b
both    SELECT a FROM vacant ORDER BY a  ~  SELECT a, b FROM vacant
"""


def cases() -> Iterator[tuple[str, str, str]]:
    """(which methods find them equal, gold, prediction)."""
    for line in CASES.strip().splitlines():
        if not line.startswith("#"):
            yield line.split()[0], *line.replace(r"\n", "\n").replace(r"\t", "\t")[8:].split("  ~  ")


def test_the_server_judges_as_published(scorer: Scorer) -> None:
    make_database(scorer.databases / "league.sqlite", LEAGUE)
    asked = [(case, method) for case in cases() for method in ("bird", "spider")]
    questions = [question(gold, sql, method=of, db_id="league.sqlite") for (_, gold, sql), of in asked]
    found = [answer["outcome"] == "match" for [answer] in scorer.answers(*questions)]
    expected = [equal_for in ("both", method) for (equal_for, *_), method in asked]
    assert [of for of, equal, right in zip(asked, found, expected, strict=True) if equal is not right] == []
