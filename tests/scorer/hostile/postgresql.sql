-- What is no SELECT, reaches beyond the database, waits or draws lots: one statement a line. FOLDER is one outside.
COPY player TO PROGRAM 'touch FOLDER/out'
COPY player FROM PROGRAM 'cat /etc/passwd'
LOCK TABLE player
DO $$ BEGIN DELETE FROM player; END $$
SET ROLE owner
DISCARD ALL
TABLE pg_locks
DECLARE d CURSOR FOR SELECT 1
CLOSE ALL
CREATE EXTENSION dblink
CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'
GRANT ALL ON player TO guest
SELECT pg_read_file('/etc/passwd')
SELECT * FROM pg_authid
SELECT lo_import('/etc/passwd')
SELECT lo_export(1, 'FOLDER/out')
SELECT lo_from_bytea(0, '\x00')
SELECT dblink('host=/tmp', 'SELECT 1')
SELECT pg_sleep(60)
SELECT pg_advisory_lock(1)
SELECT pg_catalog.pg_sleep(60)
SELECT set_config('statement_timeout', '0', false)
SELECT set_config('transaction_read_only', 'off', true)
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
SELECT pg_notify('x', 'y')
SELECT pg_logical_emit_message(false, 'a', 'b')
SELECT pg_reload_conf()
SELECT query_to_xml('SELECT pg_sleep(60)', true, true, '')
SELECT database_to_xml(true, true, '')
SELECT txid_current()
SELECT ts_stat('SELECT to_tsvector(1::text)')
SELECT * FROM crosstab('SELECT 1') AS t (a int)
SELECT query FROM pg_stat_activity
SELECT id FROM player FOR UPDATE
SELECT pg_backend_pid()
SELECT "pg_sleep"(60)
SELECT pg_catalog."pg_sleep" (60)
SELECT U&"pg\005fsleep"(60)
SELECT /* /* */ ' */ pg_sleep(60) -- '
SELECT 1 -- \r, pg_sleep(60)
SELECT E'\'', pg_sleep(60) -- '
SELECT E'a'\n'\'', pg_sleep(60) -- '
SELECT $a$ $$ $a$, pg_sleep(60) -- $$
SELECT 1 AS a$$, pg_sleep(60) AS $$
SELECT 1\0, pg_sleep(60)
