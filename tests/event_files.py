"""Writes TensorBoard's event files from the formats' definitions: TFRecord, CRC-32C, protobuf."""

import struct


def crc32c(data):
    """The remainder by Castagnoli's polynomial, bit by bit, as RFC 3720 defines it."""
    crc = 0xFFFFFFFF
    for bit in (byte >> k & 1 for byte in data for k in range(8)):
        odd = (crc ^ bit) & 1
        crc = crc >> 1 ^ 0x82F63B78 * odd
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15) + (crc << 17) % 2**32 + 0xA282EAD8) % 2**32)


def record(data):
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def varint(number):
    number %= 2**64
    groups = [number >> shift & 127 for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([group | 128 for group in groups[:-1]] + groups[-1:])


def message(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def simple(number):
    """field 2, simple_value"""
    return b"\x15" + struct.pack("<f", number)


def tensor(number, dtype=1, form="<f"):
    """field 8, a tensor with tensor_content"""
    return message(8, b"\x08" + varint(dtype) + message(4, struct.pack(form, number)))


def event(step, values, time=0.0):
    """One event with {tag: bytes of its value}."""
    summary = b"".join(
        message(1, message(1, tag.encode()) + value) for tag, value in values.items()
    )
    head = b"\x09" + struct.pack("<d", time) + b"\x10" + varint(step)
    return record(head + message(5, summary))


def event_file(rows, time=0.0, value=simple):
    """The first event, with the version, and one event per row {"step": ..., tag: number}."""
    version = record(b"\x09" + struct.pack("<d", time) + message(3, b"brain.Event:2"))
    return version + b"".join(
        event(row["step"], {tag: value(x) for tag, x in row.items() if tag != "step"}, time)
        for row in rows
    )
