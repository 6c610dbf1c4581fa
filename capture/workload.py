"""Plans what the shop's clients do. The plan follows from the seed alone and needs no database.

A day is a shuffled deck of scenarios, so that every shape of change comes back in every part of the
capture. The planner keeps the keys that live as if its transactions ran one after another; the
clients run them side by side, so a few meet a missing row or a taken key, as in any shop.
"""

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from random import Random

WAREHOUSES = ("north", "south", "öst")
KINDS = ("home", "work", "ship to", "férias")
STATUSES = ("new", "paid", "packed", "shipped", "returned", "")
CURRENCIES = ("EUR", "USD", "JPY", "INR")
ZONES = ("UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kolkata", "Pacific/Apia")
NAMES = (
    "Angela Weiß",
    "Zoë Ångström",
    "Pat O'Brien",
    'Ann "Nan" Lee',
    "李小龍",
    "Мария Иванова",
    "مريم حداد",
    "דנה כהן",
    "Nguyễn Thị Hồng",
    "back\\slash \\n Bob",
    "👩‍🚀 Ripley",
    "e\u0301tude (combining)",
    "two\nlines",
    "tab\tand\rreturn",
    "separator\u2028inside",
    "null",
    "  padded  ",
    "{curly}, [square], ,comma",
)
REMARKS = (
    None,
    "",
    " ",
    "null",
    "ring twice",
    'don\'t "bend"',
    "C:\\temp\\new",
    "🎁 gift\n🎀",
    "שלום",
)
TAGS = ("new", "sale", "two words", 'quo"te', "back\\slash", "NULL", "", "crème", "a,b", "{x}")
PROSE = (
    "called again about the late parcel and asked for a refund in writing bitte zurückrufen "
    "прислать каталог 明日電話する prefers the blue one 🙂 does not want e-mail naïve façade"
)
WORDS = PROSE.split(" ")
# From here on a double holds only every second integer.
BIG = 2**53


@dataclass(frozen=True)
class Statement:
    """One statement, the rows that it brings if it is a COPY, and the events it should cause."""

    sql: str
    values: tuple[object, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    events: int = 1


@dataclass(frozen=True)
class Transaction:
    """Statements that one client runs together, in a time zone of its own."""

    statements: tuple[Statement, ...]
    zone: str = "UTC"
    commit: bool = True

    @property
    def events(self) -> int:
        """The events that the transaction should cause."""
        return sum(statement.events for statement in self.statements) if self.commit else 0


@dataclass
class Shop:
    """What the planner remembers: its dice, its clock, and the keys that live or once lived."""

    rng: Random
    clock: datetime = datetime(2024, 2, 28, 6, tzinfo=timezone.utc)
    customers: list[int] = field(default_factory=list)
    former_customers: list[int] = field(default_factory=list)
    skus: list[str] = field(default_factory=list)
    former_skus: list[str] = field(default_factory=list)
    orders: dict[int, list[int]] = field(default_factory=dict)
    payments: list[str] = field(default_factory=list)
    carts: list[int] = field(default_factory=list)
    numbers: int = 0

    def number(self) -> int:
        """Give a number that was never given before."""
        self.numbers += 1
        return self.numbers

    def chance(self, share: float) -> bool:
        """Throw the dice: true in the given share of cases."""
        return self.rng.random() < share

    def moment(self) -> str:
        """Give a local time with microseconds; now and then one from long ago or far ahead."""
        self.clock += timedelta(microseconds=self.rng.randint(1, 600_000_000))
        day = f"{self.clock:%Y-%m-%d}"
        if self.chance(0.02):
            day = self.rng.choice(("1850-01-01", "2200-12-31"))
        return f"{day} {self.clock:%H:%M:%S.%f}"

    def day(self) -> str | None:
        """Give a date, or none."""
        return None if self.chance(0.2) else self.moment()[:10]

    def decimal(self, digits: int, scale: int) -> str:
        """Give a decimal number as text, with a random count of digits before the point."""
        whole = self.rng.randrange(10 ** self.rng.randint(1, digits - scale))
        return f"{whole}.{self.rng.randrange(10**scale):0{scale}}"

    def prose(self, size: int) -> str:
        """Give a text of at least so many bytes."""
        words: list[str] = []
        while size > 0:
            words.append(self.rng.choice(WORDS))
            size -= len(words[-1].encode()) + 1
        return " ".join(words)


Row = Mapping[str, object]
Scenario = Callable[[Shop], list[Transaction]]


def plan(seed: int, events: int) -> tuple[list[Transaction], list[Transaction]]:
    """Plan a workload.

    Args:
        seed: Decides every operation and every value.
        events: How many row changes the plan should cause, about.

    Returns:
        The transactions that fill the shop, to be run by one client before the others start, and
        the transactions of the days after, in the order in which clients should take them.
    """
    shop = Shop(Random(seed))
    opening = [_transaction(shop, *_new_product(shop)) for _ in range(30)]
    opening += [t for _ in range(40) for t in join(shop)]
    opening += [t for _ in range(20) for t in place_order(shop)]
    days: list[Transaction] = []
    missing = events - sum(transaction.events for transaction in opening)
    while missing > 0:
        deck = [scenario for scenario, times in DAY.items() for _ in range(times)]
        shop.rng.shuffle(deck)
        for scenario in deck:
            transactions = scenario(shop)
            days += transactions
            missing -= sum(transaction.events for transaction in transactions)
            if missing <= 0:
                break
    return opening, days


# Statements ---------------------------------------------------------------------------------------


def _insert(table: str, *rows: Row) -> Statement:
    row = f"({', '.join(['%s'] * len(rows[0]))})"
    sql = f"INSERT INTO shop.{table} ({', '.join(rows[0])}) VALUES {', '.join([row] * len(rows))}"
    return Statement(sql, tuple(v for row in rows for v in row.values()), events=len(rows))


def _copy(table: str, *rows: Row) -> Statement:
    sql = f"COPY shop.{table} ({', '.join(rows[0])}) FROM STDIN"
    return Statement(sql, rows=tuple(tuple(row.values()) for row in rows), events=len(rows))


def _update(table: str, key: Row, changes: Row, cascaded: int = 0) -> Statement:
    columns = ", ".join(f"{column} = %s" for column in changes)
    sql = f"UPDATE shop.{table} SET {columns} WHERE {_where(key)}"
    return Statement(sql, (*changes.values(), *key.values()), events=1 + cascaded)


def _delete(table: str, key: Row, cascaded: int = 0) -> Statement:
    sql = f"DELETE FROM shop.{table} WHERE {_where(key)}"
    return Statement(sql, tuple(key.values()), events=1 + cascaded)


def _where(key: Row) -> str:
    return " AND ".join(f"{column} = %s" for column in key)


def _transaction(shop: Shop, *statements: Statement, commit: bool = True) -> Transaction:
    return Transaction(statements, shop.rng.choice(ZONES), commit)


# Rows ---------------------------------------------------------------------------------------------


def _customer(shop: Shop, customer_id: int) -> Row:
    name = f"{shop.rng.choice(NAMES)} {customer_id}"
    return {
        "customer_id": customer_id,
        "name": name,
        "email": shop.rng.choice(
            (None, "", f"c{customer_id}@example.org", f"ü@{customer_id}.example")
        ),
        "profile": _profile(shop),
        "notes": shop.prose(shop.rng.randint(2200, 2800)) if shop.chance(0.4) else None,
        "born_on": shop.day(),
    }


def _profile(shop: Shop) -> str | None:
    if shop.chance(0.1):
        return None
    profile = {
        "lang": shop.rng.choice(("de", "en", "zh", "ar", None)),
        "likes": shop.rng.sample(TAGS, shop.rng.randint(0, 3)),
        "credit": {"limit": shop.rng.randrange(10**17), "used": 0.1},
        "quote": shop.rng.choice(('he said "hi"', "back\\slash", "☃")),
    }
    return json.dumps(profile)


def _address(shop: Shop, customer_id: int, kind: str) -> Row:
    return {
        "customer_id": customer_id,
        "kind": kind,
        "street": shop.rng.choice((None, "", "1 O'Connell St.", "Unter den Linden 5", "東京都1-1")),
        "city": shop.rng.choice(("Dublin", "Köln", "東京", None)),
        "postal_code": shop.rng.choice((None, "", "00123", "D-50667")),
        "country": shop.rng.choice(("IE", "DE", "JP", None)),
    }


def _product(shop: Shop, sku: str) -> Row:
    tags: list[str | None] = [*shop.rng.sample(TAGS, shop.rng.randint(0, 4))]
    return {
        "sku": sku,
        "title": f"{shop.rng.choice(WORDS)} {shop.rng.choice(WORDS)}",
        "price": shop.decimal(12, 2),
        "weight": shop.rng.choice(
            (None, "0", shop.decimal(18, 6), "-0.000001", "9" * 12 + ".999999")
        ),
        "tags": None if shop.chance(0.1) else [*tags, None] if shop.chance(0.1) else tags,
        "active": shop.chance(0.8),
    }


def _stock(shop: Shop, sku: str, warehouse: str) -> Row:
    quantity = shop.rng.randint(0, 1000)
    return {"sku": sku, "warehouse": warehouse, "quantity": quantity, "counted_at": shop.moment()}


def _line(shop: Shop, order_id: int, line_no: int) -> Row:
    return {
        "order_id": order_id,
        "line_no": line_no,
        "sku": shop.rng.choice(shop.skus),
        "quantity": shop.rng.randint(1, 9),
        "price": shop.decimal(12, 2),
        "discount": shop.rng.choice((None, "0", "0.1250", "1")),
    }


def _payment(shop: Shop, payment_id: str, order_id: int) -> Row:
    return {
        "payment_id": payment_id,
        "order_id": order_id,
        "amount": shop.rng.choice((shop.decimal(18, 4), "99999999999999.9999", "-0.0001", "12.5")),
        "currency": shop.rng.choice(CURRENCIES),
        "receipt": shop.rng.choice((None, b"", b"\x00\xff\\'\"", shop.rng.randbytes(12))),
        "paid_at": shop.moment(),
    }


def _cart(shop: Shop, cart_id: int) -> Row:
    items = {
        sku: shop.rng.randint(1, 5) for sku in shop.rng.sample(shop.skus, shop.rng.randint(0, 3))
    }
    return {
        "cart_id": cart_id,
        "customer_id": shop.rng.choice(shop.customers),
        "items": json.dumps(items),
        "touched_at": shop.moment(),
    }


def _event(shop: Shop) -> Row:
    payload = {"page": shop.rng.choice(NAMES), "ms": shop.rng.randrange(10**6)}
    return {
        "happened_at": shop.moment(),
        "kind": shop.rng.choice(("view", "click", "search", "")),
        "grade": shop.rng.choice((None, -32768, 0, shop.rng.randrange(32768))),
        "ratio": shop.rng.choice((None, 0.1, 1.5e-38, 3.4e38, shop.rng.randrange(10**6) / 997)),
        "score": shop.rng.choice((None, 0.1 + 0.2, 5e-324, -1.7e308, shop.rng.random() * 1e6)),
        "payload": None if shop.chance(0.1) else json.dumps(payload),
    }


# Scenarios: customers and their addresses ---------------------------------------------------------


def join(shop: Shop) -> list[Transaction]:
    """A customer comes, or comes back under the number that was deleted, with addresses."""
    back = shop.former_customers and shop.chance(0.5)
    customer_id = shop.former_customers.pop(0) if back else shop.number()
    shop.customers.append(customer_id)
    kinds = shop.rng.sample(KINDS, shop.rng.randint(1, 3))
    customer = _insert("customers", _customer(shop, customer_id))
    addresses = _insert("addresses", *(_address(shop, customer_id, kind) for kind in kinds))
    return [_transaction(shop, customer, addresses)]


def edit_customer(shop: Shop) -> list[Transaction]:
    """Some columns of a customer change; seldom the notes, so that the log mostly omits them."""
    customer_id = shop.rng.choice(shop.customers)
    row = _customer(shop, customer_id)
    columns = ["notes"] if shop.chance(0.1) else ["name", "email", "profile", "born_on"]
    changes = {column: row[column] for column in shop.rng.sample(columns, 1)}
    return [_transaction(shop, _update("customers", {"customer_id": customer_id}, changes))]


def leave(shop: Shop) -> list[Transaction]:
    """A customer is deleted: the addresses with it, its orders lose it."""
    customer_id = shop.customers.pop(shop.rng.randrange(len(shop.customers)))
    shop.former_customers.append(customer_id)
    return [_transaction(shop, _delete("customers", {"customer_id": customer_id}, cascaded=3))]


def replace_customer(shop: Shop) -> list[Transaction]:
    """A customer is deleted and inserted again under the same key in one transaction."""
    customer_id = shop.rng.choice(shop.customers)
    key = {"customer_id": customer_id}
    statements = [
        _delete("customers", key, cascaded=3),
        _insert("customers", _customer(shop, customer_id)),
        _update("customers", key, {"name": "once more"}),
        _insert("addresses", _address(shop, customer_id, shop.rng.choice(KINDS))),
    ]
    return [_transaction(shop, *statements)]


def move_house(shop: Shop) -> list[Transaction]:
    """An address is written, changed or dropped."""
    customer_id, kind = shop.rng.choice(shop.customers), shop.rng.choice(KINDS)
    key = {"customer_id": customer_id, "kind": kind}
    row = _address(shop, customer_id, kind)
    drop = _delete("addresses", key)
    rewrite = [drop, _insert("addresses", row)]
    change = [_update("addresses", key, {"street": row["street"], "city": row["city"]})]
    clear = [_update("addresses", key, {"postal_code": None, "country": None})]
    return [_transaction(shop, *shop.rng.choice((rewrite, rewrite, change, change, clear, [drop])))]


def relabel_address(shop: Shop) -> list[Transaction]:
    """An address gets another kind, which is part of its key."""
    customer_id = shop.rng.choice(shop.customers)
    old, new = shop.rng.sample(KINDS, 2)
    free = _delete("addresses", {"customer_id": customer_id, "kind": new})
    move = _update("addresses", {"customer_id": customer_id, "kind": old}, {"kind": new})
    return [_transaction(shop, free, move)]


# Scenarios: products and stock --------------------------------------------------------------------


def _new_product(shop: Shop) -> list[Statement]:
    back = shop.former_skus and shop.chance(0.6)
    sku = shop.former_skus.pop(0) if back else f"SKU-{shop.number():05}"
    shop.skus.append(sku)
    stock = [_stock(shop, sku, warehouse) for warehouse in WAREHOUSES]
    # COPY writes many rows as one log record: they share one position.
    return [_insert("products", _product(shop, sku)), _copy("stock", *stock)]


def add_product(shop: Shop) -> list[Transaction]:
    """A product comes, or comes back, with its stock."""
    return [_transaction(shop, *_new_product(shop))]


def withdraw_product(shop: Shop) -> list[Transaction]:
    """A product is deleted, and its stock by cascade."""
    sku = shop.skus.pop(shop.rng.randrange(len(shop.skus)))
    shop.former_skus.append(sku)
    return [_transaction(shop, _delete("products", {"sku": sku}, cascaded=len(WAREHOUSES)))]


def replace_product(shop: Shop) -> list[Transaction]:
    """A product is deleted and inserted again in one transaction, its stock too."""
    sku = shop.rng.choice(shop.skus)
    stock = [_stock(shop, sku, warehouse) for warehouse in WAREHOUSES]
    statements = [
        _delete("products", {"sku": sku}, cascaded=len(WAREHOUSES)),
        _insert("products", _product(shop, sku)),
        _insert("stock", *stock),
    ]
    return [_transaction(shop, *statements)]


def reprice(shop: Shop) -> list[Transaction]:
    """Several products change together."""
    statements = []
    for sku in shop.rng.sample(shop.skus, 4):
        row = _product(shop, sku)
        column = shop.rng.choice(("price", "weight", "tags", "active", "title"))
        statements.append(_update("products", {"sku": sku}, {column: row[column]}))
    return [_transaction(shop, *statements)]


def rename_product(shop: Shop) -> list[Transaction]:
    """A product gets a new key, a freed one, or two after another; its stock follows by cascade."""
    old = shop.skus.pop(shop.rng.randrange(len(shop.skus)))
    freed = shop.former_skus and shop.chance(0.3)
    new = shop.former_skus.pop(0) if freed else f"SKU-{shop.number():05}-b"
    changes = {"price": shop.decimal(12, 2)} if shop.chance(0.3) else {}
    statements = [_rename(old, new, changes)]
    if shop.chance(0.3):
        passed, new = new, f"SKU-{shop.number():05}-ß"
        statements.append(_rename(passed, new))
    shop.skus.append(new)
    shop.former_skus.append(old)
    return [_transaction(shop, *statements)]


def swap_products(shop: Shop) -> list[Transaction]:
    """Two products swap their keys through a third."""
    a, b = shop.rng.sample(shop.skus, 2)
    return [_transaction(shop, _rename(a, "SWAP"), _rename(b, a), _rename("SWAP", b))]


def _rename(old: str, new: str, changes: Row | None = None) -> Statement:
    return _update("products", {"sku": old}, {"sku": new, **(changes or {})}, len(WAREHOUSES))


def recount(shop: Shop) -> list[Transaction]:
    """One stock row changes hundreds of times in one transaction."""
    sku, warehouse = shop.rng.choice(shop.skus), shop.rng.choice(WAREHOUSES)
    times = shop.rng.randint(120, 240)
    return [_transaction(shop, *(_take(shop, sku, warehouse) for _ in range(times)))]


def rush(shop: Shop) -> list[Transaction]:
    """One stock row changes in many transactions that wait for each other."""
    sku, warehouse = shop.rng.choice(shop.skus), shop.rng.choice(WAREHOUSES)
    times = shop.rng.randint(30, 60)
    return [_transaction(shop, _take(shop, sku, warehouse)) for _ in range(times)]


def rebuild_stock(shop: Shop) -> list[Transaction]:
    """A stock row is deleted and comes back, in one transaction or in the next."""
    sku, warehouse = shop.rng.choice(shop.skus), shop.rng.choice(WAREHOUSES)
    gone = _delete("stock", {"sku": sku, "warehouse": warehouse})
    back = _insert("stock", _stock(shop, sku, warehouse))
    if shop.chance(0.5):
        return [_transaction(shop, gone, back)]
    return [_transaction(shop, gone), _transaction(shop, back)]


def hand_over(shop: Shop) -> list[Transaction]:
    """A slow client deletes a product's stock, while the next already loads it anew and waits.

    The new rows are logged together, before the last of the old ones are deleted, and count after.
    """
    sku = shop.rng.choice(shop.skus)
    gone = [_delete("stock", {"sku": sku, "warehouse": warehouse}) for warehouse in WAREHOUSES]
    pause = Statement("SELECT pg_sleep(0.05)", events=0)
    load = _copy("stock", *(_stock(shop, sku, warehouse) for warehouse in WAREHOUSES))
    return [_transaction(shop, gone[0], pause, *gone[1:]), _transaction(shop, load)]


def _take(shop: Shop, sku: object, warehouse: str) -> Statement:
    return Statement(
        "UPDATE shop.stock SET quantity = quantity - %s, counted_at = %s"
        " WHERE sku = %s AND warehouse = %s",
        (shop.rng.randint(-20, 20), shop.moment(), sku, warehouse),
    )


# Scenarios: orders, lines, payments ---------------------------------------------------------------


def place_order(shop: Shop) -> list[Transaction]:
    """An order with lines, stock, payment and an event: five tables in one transaction."""
    order_id = shop.number() + (BIG if shop.chance(0.4) else 0)
    numbers = list(range(1, shop.rng.randint(2, 5)))
    shop.orders[order_id] = numbers
    lines = [_line(shop, order_id, number) for number in numbers]
    order = {
        "order_id": order_id,
        "customer_id": shop.rng.choice((None, *shop.customers)),
        "status": "new",
        "total": shop.decimal(14, 2),
        "placed_at": shop.moment(),
        "local_time": shop.moment(),
        "ship_on": shop.day(),
        "remark": shop.rng.choice(REMARKS),
    }
    statements = [_insert("orders", order), _insert("order_lines", *lines)]
    statements += [_take(shop, line["sku"], shop.rng.choice(WAREHOUSES)) for line in lines]
    if shop.chance(0.7):
        shop.payments.append(str(uuid.UUID(int=shop.rng.getrandbits(128), version=4)))
        statements.append(_insert("payments", _payment(shop, shop.payments[-1], order_id)))
    if shop.chance(0.5):
        statements.append(_insert("events", _event(shop)))
    return [_transaction(shop, *statements)]


def advance_order(shop: Shop) -> list[Transaction]:
    """An order moves on, once or several times in one transaction."""
    order_id = shop.rng.choice(list(shop.orders))
    statements = []
    for status in shop.rng.sample(STATUSES, shop.rng.randint(1, 3)):
        row = {
            "remark": shop.rng.choice(REMARKS),
            "ship_on": shop.day(),
            "placed_at": shop.moment(),
        }
        columns = shop.rng.sample(list(row), shop.rng.randint(0, 1))
        changes = {"status": status, **{column: row[column] for column in columns}}
        statements.append(_update("orders", {"order_id": order_id}, changes))
    return [_transaction(shop, *statements)]


def cancel_order(shop: Shop) -> list[Transaction]:
    """An order is deleted with its lines; half of them are entered again under the same number."""
    order_id = shop.rng.choice(list(shop.orders))
    numbers = shop.orders.pop(order_id)
    transactions = [
        _transaction(shop, _delete("orders", {"order_id": order_id}, cascaded=len(numbers)))
    ]
    if shop.chance(0.5):
        shop.orders[order_id] = [1]
        order = {"order_id": order_id, "status": "again", "placed_at": shop.moment()}
        again = [_insert("orders", order), _insert("order_lines", _line(shop, order_id, 1))]
        transactions.append(_transaction(shop, *again))
    return transactions


def change_lines(shop: Shop) -> list[Transaction]:
    """Lines are added, changed, moved to a fresh number, or close up when the first is dropped."""
    order_id = shop.rng.choice(list(shop.orders))
    numbers = shop.orders[order_id]
    first, fresh = numbers[0], numbers[-1] + 1

    def key(number: int) -> Row:
        return {"order_id": order_id, "line_no": number}

    if len(numbers) == 1 or shop.chance(0.3):
        numbers.append(fresh)
        row = _line(shop, order_id, fresh)
        changes = {"quantity": row["quantity"], "price": row["price"]}
        change = _update("order_lines", key(first), changes)
        return [_transaction(shop, change, _insert("order_lines", row))]
    if shop.chance(0.5):
        shop.orders[order_id] = [*numbers[1:], fresh]
        return [_transaction(shop, _update("order_lines", key(first), {"line_no": fresh}))]
    shop.orders[order_id] = numbers[:-1]
    moves = [_update("order_lines", key(old), {"line_no": new}) for new, old in pairwise(numbers)]
    return [_transaction(shop, _delete("order_lines", key(first)), *moves)]


def renumber_lines(shop: Shop) -> list[Transaction]:
    """One statement gives all lines of an order new keys."""
    order_id = shop.rng.choice(list(shop.orders))
    numbers = shop.orders[order_id]
    shop.orders[order_id] = [number + 10 for number in numbers]
    sql = "UPDATE shop.order_lines SET line_no = line_no + 10 WHERE order_id = %s"
    return [_transaction(shop, Statement(sql, (order_id,), events=len(numbers)))]


def settle_payment(shop: Shop) -> list[Transaction]:
    """A payment is corrected, deleted, or entered anew under the same id."""
    payment_id = shop.rng.choice(shop.payments)
    row = _payment(shop, payment_id, shop.rng.choice(list(shop.orders)))
    key = {"payment_id": payment_id}
    correct = [_update("payments", key, {"amount": row["amount"], "receipt": row["receipt"]})]
    open_again = [_update("payments", key, {"paid_at": None})]
    anew = [_delete("payments", key), _insert("payments", row)]
    return [_transaction(shop, *shop.rng.choice((correct, correct, open_again, anew)))]


def charge_back(shop: Shop) -> list[Transaction]:
    """A payment is deleted for good."""
    payment_id = shop.payments.pop(shop.rng.randrange(len(shop.payments)))
    return [_transaction(shop, _delete("payments", {"payment_id": payment_id}))]


# Scenarios: carts and events ----------------------------------------------------------------------


def touch_cart(shop: Shop) -> list[Transaction]:
    """A cart is put down or changed: an upsert."""
    row = _cart(shop, shop.rng.randint(1, 60))
    insert = _insert("carts", row)
    sql = f"{insert.sql} ON CONFLICT (cart_id) DO UPDATE SET items = excluded.items"
    return [_transaction(shop, Statement(sql, insert.values))]


def drop_cart(shop: Shop) -> list[Transaction]:
    """Carts are left standing and removed."""
    return [_transaction(shop, _delete("carts", {"cart_id": shop.rng.randint(1, 60)}))]


def clear_carts(shop: Shop) -> list[Transaction]:
    """All carts go."""
    return [_transaction(shop, Statement("TRUNCATE shop.carts"))]


def clear_carts_midway(shop: Shop) -> list[Transaction]:
    """All carts go in the middle of a transaction that writes some before and after."""
    a, b, c = shop.rng.sample(range(61, 99), 3)
    before = _insert("carts", _cart(shop, a), _cart(shop, b))
    after = _insert("carts", _cart(shop, b), _cart(shop, c))
    # Taken first, the lock keeps two such clients from waiting for each other.
    lock = Statement("LOCK TABLE shop.carts", events=0)
    return [_transaction(shop, lock, before, Statement("TRUNCATE shop.carts"), after)]


def log_events(shop: Shop) -> list[Transaction]:
    """Events are written one by one, at times with the same content again."""
    rows = [_event(shop) for _ in range(shop.rng.randint(1, 4))]
    if shop.chance(0.2):
        rows.append(rows[0])
    return [_transaction(shop, *(_insert("events", row) for row in rows))]


def load_events(shop: Shop) -> list[Transaction]:
    """Events are loaded with COPY: many rows at one position of the log."""
    rows = [_event(shop) for _ in range(shop.rng.randint(10, 40))]
    return [_transaction(shop, _copy("events", *rows))]


# Scenarios: what leaves no trace, or should not ---------------------------------------------------


def touch_in_vain(shop: Shop) -> list[Transaction]:
    """Updates that change nothing."""
    order_id = shop.rng.choice(list(shop.orders))
    customer_id = shop.rng.choice(shop.customers)
    sku = shop.rng.choice(shop.skus)
    customer = "UPDATE shop.customers SET name = name WHERE customer_id = %s"
    statements = [
        Statement("UPDATE shop.orders SET status = status WHERE order_id = %s", (order_id,)),
        Statement(customer, (customer_id,)),
        Statement("UPDATE shop.products SET sku = sku WHERE sku = %s", (sku,)),
    ]
    return [_transaction(shop, *statements)]


def roll_back(shop: Shop) -> list[Transaction]:
    """A client changes its mind."""
    sku, customer_id = shop.rng.choice(shop.skus), shop.rng.choice(shop.customers)
    statements = [
        _update("products", {"sku": sku}, {"sku": "NEVER", "title": "never"}),
        _update("customers", {"customer_id": customer_id}, {"name": "never", "notes": None}),
        _insert("events", _event(shop)),
        Statement("TRUNCATE shop.carts"),
    ]
    return [_transaction(shop, *statements, commit=False)]


def roll_back_part(shop: Shop) -> list[Transaction]:
    """A client changes its mind about a part: the rest is kept."""
    order_id = shop.rng.choice(list(shop.orders))
    savepoint = Statement("SAVEPOINT before", events=0)
    undone = _update("orders", {"order_id": order_id}, {"status": "never"})
    rollback = Statement("ROLLBACK TO SAVEPOINT before", events=-1)
    kept = _update("orders", {"order_id": order_id}, {"remark": shop.rng.choice(REMARKS)})
    return [_transaction(shop, _insert("events", _event(shop)), savepoint, undone, rollback, kept)]


DAY: dict[Scenario, int] = {
    join: 8,
    edit_customer: 40,
    leave: 3,
    replace_customer: 2,
    move_house: 25,
    relabel_address: 6,
    add_product: 2,
    withdraw_product: 2,
    replace_product: 1,
    reprice: 10,
    rename_product: 3,
    swap_products: 1,
    recount: 1,
    rush: 1,
    rebuild_stock: 4,
    hand_over: 1,
    place_order: 25,
    advance_order: 30,
    cancel_order: 4,
    change_lines: 12,
    renumber_lines: 2,
    settle_payment: 25,
    charge_back: 3,
    touch_cart: 60,
    drop_cart: 8,
    clear_carts: 1,
    clear_carts_midway: 1,
    log_events: 15,
    load_events: 1,
    touch_in_vain: 4,
    roll_back: 5,
    roll_back_part: 3,
}
