"""TensorBoard's event files: scalars, without TensorFlow or protobuf.

A file is a sequence of records (TFRecord)::

    uint64 length, uint32 checksum of the length, data, uint32 checksum of the data

in little endian, with masked CRC-32C checksums. The data is a protobuf message Event: its step
(field 2) and its Summary (5), whose values (1) have a tag (1) and either a simple_value (2) or a
tensor (8): the dtype (1), and the number as bytes (4), as float_val (5) or as double_val (6).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from batchlaw.from_data.logs.table import Row, Table, read_bytes, refusal

MARK = "tfevents"
STEP = "step"
_HEADER, _FOOTER = 12, 4
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FLOAT, _DOUBLE = 1, 2  # TensorFlow's DataType
_CASTAGNOLI = 0x82F63B78


def is_event_file(content: bytes) -> bool:
    """Whether the content begins with the header of a record."""
    return len(content) >= _HEADER and _checked(content[:8], content[8:12])


def read(path: Path) -> Table:
    """One file, or the files of one run in a folder, in the order of their first events."""
    if not os.path.isdir(path):
        return _one(path)[1]
    try:
        files = sorted(file for file in path.iterdir() if MARK in file.name and file.is_file())
    except OSError as error:
        raise refusal(path, "must be readable", hint=str(error.strerror or error)) from None
    if not files:
        raise refusal(path, f"must have TensorBoard's event files, *{MARK}*", "none")
    # A run that was killed at once leaves a file without a byte.
    dated = [_one(file) for file in files if file.stat().st_size]
    if not dated:
        raise refusal(path, "must have an event file that is not empty")
    tables = [table for _, table in sorted(dated, key=lambda pair: pair[0])]
    rows = [row for table in tables for row in table.rows]
    return Table(rows, sum(table.truncated for table in tables), STEP)


def _one(path: Path) -> tuple[float, Table]:
    """When the first event was written, and the scalars; a last record may break off."""
    content = read_bytes(path)
    rows: list[Row] = []
    first: float | None = None
    begin = 0
    while begin < len(content):
        record = _record(path, content, begin)
        if record is None:
            break
        begin += _HEADER + len(record) + _FOOTER
        try:
            written, row = _event(record)
        except (ValueError, struct.error):
            raise refusal(path, "must hold TensorBoard's events, one is none") from None
        first = written if first is None else first
        rows += [row] if len(row) > 1 else []
    return first or 0.0, Table(rows, int(begin < len(content)), STEP)


def _record(path: Path, content: bytes, begin: int) -> bytes | None:
    """The data of the record that begins there; None where the file ends within it."""
    header = content[begin : begin + _HEADER]
    if len(header) < _HEADER:
        return None
    if not _checked(header[:8], header[8:]):
        raise refusal(path, "must match its checksums", f"a wrong one at byte {begin + 8}")
    data = begin + _HEADER
    end = data + int.from_bytes(header[:8], "little")
    if end + _FOOTER > len(content):
        return None
    if not _checked(content[data:end], content[end : end + _FOOTER]):
        raise refusal(path, "must match its checksums", f"a wrong one at byte {end}")
    return content[data:end]


def _event(record: bytes) -> tuple[float, Row]:
    """When an event was written; its step, and its scalars by their tags."""
    written, step = 0.0, 0
    scalars: Row = {}
    for field, kind, value in _fields(record):
        if (field, kind) == (1, _FIXED64):
            (written,) = struct.unpack("<d", _of_bytes(value))
        elif (field, kind) == (2, _VARINT):
            step = int(value) - (1 << 64) * (int(value) >> 63)
        elif (field, kind) == (5, _BYTES):
            for part, form, summary_value in _fields(_of_bytes(value)):
                if (part, form) == (1, _BYTES):
                    scalars |= _scalar(_of_bytes(summary_value))
    return written, scalars | {STEP: float(step)}


def _scalar(value: bytes) -> Row:
    """{tag: number} of one value of a summary; nothing for an image or a histogram."""
    tag, number = "", None
    for field, kind, content in _fields(value):
        if (field, kind) == (1, _BYTES):
            tag = _of_bytes(content).decode()
        elif (field, kind) == (2, _FIXED32):
            (number,) = struct.unpack("<f", _of_bytes(content))
        elif (field, kind) == (8, _BYTES):
            number = _tensor(_of_bytes(content))
    return {tag: number} if tag and number is not None else {}


def _tensor(value: bytes) -> float | None:
    """The number of a tensor that holds one, in single or double precision."""
    dtype, content = 0, b""
    for field, kind, part in _fields(value):
        if (field, kind) == (1, _VARINT):
            dtype = int(part)
        # float_val and double_val: packed, or one by one.
        elif field in (4, 5, 6) and kind in (_BYTES, _FIXED32, _FIXED64):
            content += _of_bytes(part)
    form = {_FLOAT: "<f", _DOUBLE: "<d"}.get(dtype)
    if form is None or len(content) != struct.calcsize(form):
        return None
    return float(struct.unpack(form, content)[0])


def _fields(message: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """(number, wire type, value) of every field of a protobuf message."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            number, at = _varint(message, at)
            yield key >> 3, kind, number
            continue
        if kind == _BYTES:
            size, at = _varint(message, at)
        else:
            sizes = {_FIXED64: 8, _FIXED32: 4}
            if kind not in sizes:
                raise ValueError("an unknown wire type")
            size = sizes[kind]
        if at + size > len(message):
            raise ValueError("a field that is too short")
        yield key >> 3, kind, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, lowest first, and the place after it."""
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & ((1 << 64) - 1), at
    raise ValueError("a number without an end")


def _of_bytes(value: int | bytes) -> bytes:
    assert isinstance(value, bytes)
    return value


def _table() -> list[int]:
    table = []
    for byte in range(256):
        remainder = byte
        for _ in range(8):
            remainder = (remainder >> 1) ^ (_CASTAGNOLI if remainder & 1 else 0)
        table.append(remainder)
    return table


_REMAINDERS = _table()


def _checked(data: bytes, checksum: bytes) -> bool:
    """Whether the masked CRC-32C of the data is the checksum."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _REMAINDERS[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return masked == int.from_bytes(checksum, "little")
