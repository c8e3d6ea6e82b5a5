-- What is no SELECT, reaches beyond the database, waits or draws lots: one statement a line. FOLDER is one outside.
DELETE FROM player
INSERT INTO player (id) VALUES (9)
TRUNCATE player
DROP TABLE player
CREATE TEMP TABLE player (a int)
CREATE TABLE t AS SELECT 1
CREATE VIEW v AS SELECT 1
WITH w AS (DELETE FROM player RETURNING id) SELECT * FROM w
WITH w AS (INSERT INTO game VALUES (1, 'x', 1) RETURNING *) SELECT * FROM w
SELECT 1 INTO t
SELECT 1; SELECT 2
SELECT 1; DROP TABLE player
BEGIN
COMMIT
EXPLAIN ANALYZE SELECT 1
SHOW ALL
SET threads = 4
VACUUM
PREPARE p AS SELECT 1
CALL f()
COPY player TO 'FOLDER/out.csv'
COPY player FROM 'FOLDER/in.csv'
SELECT random()
SELECT "random"()
SELECT id FROM player ORDER BY random()
SELECT setseed(0.5)
SELECT random /* () */ -- x\n()
SELECT gen_random_uuid()
SELECT * FROM player TABLESAMPLE SYSTEM (50)
SELECT nextval('s')
SELECT
