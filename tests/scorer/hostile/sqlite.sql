-- At least one for each kind of action that SQLite's authorizer knows, on clients: one statement a line.
DELETE FROM clients
UPDATE clients SET name = 'x' RETURNING name
INSERT INTO clients VALUES (9, 'x', 'y') RETURNING id
INSERT INTO clients VALUES (1, 'x', 'y') ON CONFLICT (id) DO UPDATE SET name = 'x'
WITH w AS (SELECT 1) DELETE FROM clients
EXPLAIN DELETE FROM clients
DROP TABLE clients
ALTER TABLE clients RENAME TO c
ALTER TABLE clients DROP COLUMN name
CREATE TABLE t AS SELECT * FROM clients
CREATE INDEX i ON clients (name)
CREATE VIEW v AS SELECT 1
CREATE TRIGGER g AFTER INSERT ON clients BEGIN DELETE FROM clients; END
REINDEX
ANALYZE
VACUUM
VACUUM INTO 'copy.sqlite'
VACUUM INTO 'FOLDER/databases/shop/shop.db'
CREATE TEMP TABLE clients AS SELECT 'x' AS name
CREATE TEMP VIEW clients AS SELECT 'x' AS name
CREATE TEMP TRIGGER g AFTER INSERT ON clients BEGIN SELECT 1; END
BEGIN EXCLUSIVE
COMMIT
SAVEPOINT s
BEGIN; DELETE FROM clients
SELECT 1; CREATE TEMP TABLE clients (name)
SELECT 1 /* ; */; BEGIN
UPDATE sqlite_master SET sql = 'CREATE TABLE clients (x)' WHERE name = 'clients'
DROP TABLE sqlite_master
CREATE VIRTUAL TABLE t USING fts5(a)
CREATE VIRTUAL TABLE temp.t USING csv(filename = '/etc/passwd')
CREATE VIRTUAL TABLE temp.t USING dbstat
ATTACH 'file:FOLDER/attached.sqlite?mode=rwc' AS a
ATTACH 'FOLDER/databases/shop/shop.sqlite' AS a
ATTACH ':memory:' AS a
DETACH main
SELECT load_extension('/lib/x86_64-linux-gnu/libm.so.6', 'cos')
SELECT fts3_tokenizer('simple')
SELECT name FROM clients WHERE Fts3_Tokenizer('simple', x'4141414141414141') NOT NULL
SELECT icu_load_collation('tr_TR', 'turkish')
SELECT readfile('/etc/passwd')
SELECT writefile('FOLDER/written', 'x')
SELECT edit('x', 'touch FOLDER/edited')
SELECT * FROM fsdir('/')
PRAGMA query_only = 0
PRAGMA table_info('clients')
PRAGMA writable_schema = 1
PRAGMA journal_mode = WAL
PRAGMA locking_mode = EXCLUSIVE
PRAGMA temp_store_directory = 'FOLDER'
PRAGMA hard_heap_limit = 1000000
PRAGMA wal_checkpoint(TRUNCATE)
SELECT * FROM pragma_table_info('clients')
SELECT * FROM clients, pragma_user_version
