-- A music shop in the manner of Chinook, small, with ties and repeated names as real data has them.
CREATE TABLE artist (artist_id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE album (album_id INTEGER PRIMARY KEY, title TEXT, artist_id INTEGER REFERENCES artist, released INTEGER);
CREATE TABLE genre (genre_id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE track (track_id INTEGER PRIMARY KEY, name TEXT, album_id INTEGER REFERENCES album,
    genre_id INTEGER REFERENCES genre, composer TEXT, milliseconds INTEGER, unit_price REAL);
CREATE TABLE employee (employee_id INTEGER PRIMARY KEY, name TEXT, title TEXT, reports_to INTEGER, hired TEXT);
CREATE TABLE customer (customer_id INTEGER PRIMARY KEY, name TEXT, country TEXT, city TEXT,
    support_rep_id INTEGER REFERENCES employee);
CREATE TABLE invoice (invoice_id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customer, day TEXT, total REAL);
CREATE TABLE invoice_line (invoice_line_id INTEGER PRIMARY KEY, invoice_id INTEGER REFERENCES invoice,
    track_id INTEGER REFERENCES track, unit_price REAL, quantity INTEGER);
CREATE TABLE playlist (playlist_id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE playlist_track (playlist_id INTEGER, track_id INTEGER, PRIMARY KEY (playlist_id, track_id));
INSERT INTO artist VALUES (1, 'Red Harbour'), (2, 'Nina Vale'), (3, 'The Ferrymen'), (4, 'Oslo Quartet'), (5, 'DJ Marl'),
    (6, 'Ada Brook'), (7, 'Silent Mill'), (8, 'Red Harbour Trio');
INSERT INTO album VALUES (1, 'Low Tide', 1, 1998), (2, 'High Tide', 1, 2001), (3, 'Letters', 2, 2003),
    (4, 'Postcards', 2, 2006), (5, 'Crossing', 3, 1998), (6, 'Strings', 4, 2010), (7, 'Night Bus', 5, 2012),
    (8, 'Morning', 6, 2012), (9, 'Evening', 6, 2015), (10, 'Wheel', 7, 2015), (11, 'Greatest Hits', 1, 2016),
    (12, 'Greatest Hits', 3, 2017);
INSERT INTO genre VALUES (1, 'Rock'), (2, 'Jazz'), (3, 'Classical'), (4, 'Electronic'), (5, 'Folk'), (6, 'Opera');
INSERT INTO track VALUES
    (1, 'Anchor', 1, 1, 'J. Stone', 241000, .99), (2, 'Lighthouse', 1, 1, 'J. Stone', 198000, .99),
    (3, 'Intro', 1, 1, NULL, 61000, .99), (4, 'Breaker', 2, 1, 'M. Reed', 305000, .99),
    (5, 'Harbour Song', 2, 1, 'J. Stone', 274000, 1.29), (6, 'Intro', 2, 1, NULL, 58000, .99),
    (7, 'Dear You', 3, 2, 'N. Vale', 312000, 1.29), (8, 'Dear Me', 3, 2, 'N. Vale', 287000, 1.29),
    (9, 'Stamp', 3, 5, 'N. Vale', 187000, .99), (10, 'Paris', 4, 2, 'N. Vale', 264000, .99),
    (11, 'Lisbon', 4, 2, 'N. Vale', 264000, .99), (12, 'Ferry', 5, 5, 'T. Hale', 223000, .99),
    (13, 'Two Banks', 5, 5, 'T. Hale', 251000, .99), (14, 'Rope', 5, 1, 'T. Hale', 199000, .99),
    (15, 'Allegro', 6, 3, 'E. Lund', 402000, 1.99), (16, 'Adagio', 6, 3, 'E. Lund', 533000, 1.99),
    (17, 'Finale', 6, 3, 'E. Lund', 367000, 1.99), (18, 'Terminus', 7, 4, 'D. Marl', 421000, 1.29),
    (19, 'Line 9', 7, 4, 'D. Marl', 388000, 1.29), (20, 'Depot', 7, 4, NULL, 341000, 1.29),
    (21, 'Dew', 8, 5, 'A. Brook', 178000, .99), (22, 'Kettle', 8, 5, 'A. Brook', 165000, .99),
    (23, 'Dusk', 9, 5, 'A. Brook', 213000, .99), (24, 'Lamp', 9, 2, 'A. Brook', 231000, .99),
    (25, 'Grain', 10, 5, 'S. Mill', 244000, .99), (26, 'Stone', 10, 5, 'S. Mill', 256000, .99),
    (27, 'Anchor', 11, 1, 'J. Stone', 243000, 1.29), (28, 'Breaker', 11, 1, 'M. Reed', 305000, 1.29),
    (29, 'Ferry', 12, 5, 'T. Hale', 225000, 1.29), (30, 'Rope', 12, 1, 'T. Hale', 199000, 1.29);
INSERT INTO employee VALUES (1, 'Grace', 'General Manager', NULL, '2002-08-14'), (2, 'Omar', 'Sales Manager', 1, '2003-05-01'),
    (3, 'Lena', 'Sales Agent', 2, '2004-04-01'), (4, 'Piotr', 'Sales Agent', 2, '2004-04-01'), (5, 'Yuki', 'IT Staff', 1, '2005-10-17');
INSERT INTO customer VALUES (1, 'Ines', 'Portugal', 'Porto', 3), (2, 'Karl', 'Germany', 'Berlin', 4),
    (3, 'Marie', 'France', 'Paris', 3), (4, 'Bjorn', 'Norway', 'Oslo', 4), (5, 'Tom', 'USA', 'Boston', 3),
    (6, 'Jane', 'USA', 'Chicago', 4), (7, 'Luc', 'France', 'Lyon', 3), (8, 'Hana', 'Germany', 'Hamburg', 3),
    (9, 'Tom', 'Canada', 'Toronto', 4), (10, 'Eva', 'Norway', 'Bergen', 3);
INSERT INTO invoice_line VALUES (1, 1, 1, .99, 1), (2, 1, 5, 1.29, 1), (3, 2, 15, 1.99, 1), (4, 2, 16, 1.99, 1), (5, 3, 7, 1.29, 2),
    (6, 4, 18, 1.29, 1), (7, 4, 19, 1.29, 1), (8, 4, 20, 1.29, 1), (9, 5, 12, .99, 1), (10, 6, 21, .99, 3), (11, 7, 4, .99, 1),
    (12, 7, 28, 1.29, 1), (13, 8, 17, 1.99, 1), (14, 9, 2, .99, 1), (15, 9, 3, .99, 1), (16, 10, 10, .99, 1), (17, 10, 11, .99, 1),
    (18, 11, 25, .99, 2), (19, 12, 8, 1.29, 1), (20, 12, 9, .99, 1), (21, 13, 30, 1.29, 1), (22, 14, 1, .99, 1), (23, 14, 27, 1.29, 1),
    (24, 15, 16, 1.99, 2), (25, 16, 13, .99, 1), (26, 17, 22, .99, 1), (27, 17, 23, .99, 1), (28, 18, 5, 1.29, 1), (29, 19, 24, .99, 1),
    (30, 20, 26, .99, 1);
INSERT INTO invoice (invoice_id, customer_id, day)
    VALUES (1, 1, '2021-01-03'), (2, 2, '2021-01-19'), (3, 3, '2021-02-02'), (4, 4, '2021-02-02'), (5, 5, '2021-03-11'),
    (6, 6, '2021-04-23'), (7, 1, '2021-05-05'), (8, 2, '2021-06-30'), (9, 3, '2021-08-08'), (10, 4, '2021-09-14'),
    (11, 5, '2021-11-21'), (12, 7, '2022-01-01'), (13, 8, '2022-01-15'), (14, 1, '2022-02-27'), (15, 2, '2022-03-03'),
    (16, 6, '2022-05-19'), (17, 7, '2022-06-06'), (18, 5, '2022-07-07'), (19, 10, '2022-10-10'), (20, 10, '2022-12-24');
UPDATE invoice SET total =
    (SELECT round(sum(unit_price * quantity), 2) FROM invoice_line l WHERE l.invoice_id = invoice.invoice_id);
INSERT INTO playlist VALUES (1, 'Road'), (2, 'Sleep'), (3, 'Empty'), (4, 'Work');
INSERT INTO playlist_track VALUES (1, 1), (1, 4), (1, 18), (1, 19), (2, 16), (2, 10), (2, 24), (4, 15), (4, 17), (4, 1), (4, 21);
