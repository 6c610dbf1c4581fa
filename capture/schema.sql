-- A small order system. Every table shows at least one thing that change capture has to get right.
CREATE SCHEMA shop;
SET search_path = shop;

-- notes lie out of line (TOAST): an update of another column does not carry them. With the low target
-- a row with notes moves its other long columns out as well.
CREATE TABLE customers (
    customer_id integer PRIMARY KEY,
    name        text NOT NULL,
    email       varchar(120),
    profile     jsonb,
    notes       text,
    born_on     date
);
ALTER TABLE customers ALTER COLUMN notes SET STORAGE EXTERNAL;
ALTER TABLE customers SET (toast_tuple_target = 128);

-- Composite key, one part of which changes; NULL beside the empty string.
CREATE TABLE addresses (
    customer_id integer REFERENCES customers ON DELETE CASCADE,
    kind        text,
    street      text,
    city        text,
    postal_code varchar(12),
    country     char(2),
    PRIMARY KEY (customer_id, kind)
);

-- A key that people rename and swap, with the whole row before the change in the log.
CREATE TABLE products (
    sku    text PRIMARY KEY,
    title  text NOT NULL,
    price  numeric(12, 2) NOT NULL,
    weight numeric(18, 6),
    tags   text[],
    active boolean NOT NULL
);
ALTER TABLE products REPLICA IDENTITY FULL;

-- Keys beyond 2^53; every kind of date and time.
CREATE TABLE orders (
    order_id    bigint PRIMARY KEY,
    customer_id integer REFERENCES customers ON DELETE SET NULL,
    status      text NOT NULL,
    total       numeric(14, 2),
    placed_at   timestamptz NOT NULL,
    local_time  timestamp,
    ship_on     date,
    remark      text
);

-- Lines are renumbered: a number that one line frees is taken by the next. The sku stays as it was ordered.
CREATE TABLE order_lines (
    order_id bigint REFERENCES orders ON DELETE CASCADE,
    line_no  integer,
    sku      text NOT NULL,
    quantity integer NOT NULL,
    price    numeric(12, 2) NOT NULL,
    discount numeric(5, 4),
    PRIMARY KEY (order_id, line_no)
);

-- Amounts that no double can hold; binary receipts. Payments outlive their order.
CREATE TABLE payments (
    payment_id uuid PRIMARY KEY,
    order_id   bigint NOT NULL,
    amount     numeric(18, 4) NOT NULL,
    currency   char(3) NOT NULL,
    receipt    bytea,
    paid_at    timestamptz
);

-- Few rows that are written all the time; their key follows the product's by cascade.
CREATE TABLE stock (
    sku        text REFERENCES products ON UPDATE CASCADE ON DELETE CASCADE,
    warehouse  text,
    quantity   integer NOT NULL,
    counted_at timestamptz,
    PRIMARY KEY (sku, warehouse)
);

-- Emptied by TRUNCATE, also between the inserts of one transaction.
CREATE TABLE carts (
    cart_id     integer PRIMARY KEY,
    customer_id integer,
    items       jsonb,
    touched_at  timestamp
);

-- No primary key: inserted only, and the same content may come twice.
CREATE TABLE events (
    happened_at timestamptz NOT NULL,
    kind        text NOT NULL,
    grade       smallint,
    ratio       real,
    score       double precision,
    payload     jsonb
);
