-- What is no SELECT, reaches beyond the database, waits or draws lots: one statement a line. FOLDER is one outside.
ATTACH 'FOLDER/new.duckdb'
DETACH league
INSTALL httpfs
LOAD httpfs
EXPORT DATABASE 'FOLDER/out'
PRAGMA version
CALL pragma_version()
SELECT * FROM read_csv('/etc/passwd')
SELECT * FROM '/etc/passwd'
SELECT * FROM read_blob('/etc/passwd')
SELECT * FROM glob('/*')
SELECT * FROM read_parquet('https://localhost/x.parquet')
SELECT * FROM query('SELECT 1')
SELECT * FROM 'FOLDER/secret.csv'
SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT random()'))
SELECT * FROM enable_logging()
SELECT * FROM checkpoint()
SELECT * FROM duckdb_secrets()
SELECT * FROM pragma_table_info('player')
SELECT current_query()
DESCRIBE player
SUMMARIZE player
FROM (DESCRIBE player)
SET VARIABLE x = 1
FROM player USING SAMPLE 1
CREATE SECRET s (TYPE s3)
SELECT uuid()
SELECT txid_current()
SELECT sleep_ms(9)
SELECT 'x'.random()
SELECT list_transform([1], x -> random())
SELECT [random() FOR x IN [1]]
SELECT getenv('HOME')
SELECT * FROM executor
SELECT * FROM request
UPDATE EXTENSIONS
PIVOT player ON team
SELECT * FROM pandas_scan(1)
SELECT * FROM python_map_function((SELECT 1))
