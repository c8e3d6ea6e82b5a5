-- What is no SELECT, reaches beyond the database, waits or draws lots: one statement a line. FOLDER is one outside.
ATTACH 'FOLDER/new.duckdb'
ATTACH ':memory:' AS m
DETACH league
INSTALL httpfs
LOAD httpfs
FORCE INSTALL icu
EXPORT DATABASE 'FOLDER/out'
IMPORT DATABASE 'FOLDER/out'
PRAGMA version
PRAGMA enable_profiling
CALL pragma_version()
SELECT * FROM read_csv('/etc/passwd')
SELECT * FROM '/etc/passwd'
SELECT * FROM read_text('/etc/passwd')
SELECT * FROM read_blob('/etc/passwd')
SELECT * FROM glob('/*')
SELECT * FROM sniff_csv('/etc/passwd')
SELECT * FROM read_parquet('https://localhost/x.parquet')
SELECT * FROM 's3://x/y.parquet'
SELECT * FROM query('SELECT 1')
SELECT * FROM query_table('player')
SELECT * FROM 'FOLDER/secret.csv'
SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT random()'))
SELECT * FROM enable_logging()
SELECT write_log('x')
SELECT * FROM checkpoint()
SELECT * FROM duckdb_secrets()
SELECT * FROM duckdb_settings()
SELECT * FROM pragma_table_info('player')
SELECT current_query()
DESCRIBE player
SHOW TABLES
SUMMARIZE player
FROM (DESCRIBE player)
SET VARIABLE x = 1
FROM player USING SAMPLE 1
CREATE SECRET s (TYPE s3)
CREATE MACRO f() AS 1
CREATE SEQUENCE s
SELECT uuid()
SELECT uuidv7()
SELECT sleep_ms(9)
SELECT 'x'.random()
SELECT list_transform([1], x -> random())
SELECT [random() FOR x IN [1]]
SELECT getenv('HOME')
SELECT * FROM executor
SELECT * FROM request
UPDATE EXTENSIONS
PIVOT player ON team
COPY FROM DATABASE league TO m
SELECT * FROM pandas_scan(1)
SELECT * FROM arrow_scan(1, 2, 3)
SELECT * FROM python_map_function((SELECT 1))
