"""Generated classes without protoc: Protobuf's library makes the same ones from descriptors."""

from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

KINDS = {
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "uint64": FieldDescriptorProto.TYPE_UINT64,
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "string": FieldDescriptorProto.TYPE_STRING,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
}


def add_field(message: DescriptorProto, number: int, name: str, kind: str, **more: Any) -> FieldDescriptorProto:
    """Add a field: a scalar, or a message or enum by its full name with a dot before it."""
    field = message.field.add(name=name, number=number, label=more.pop("label", FieldDescriptorProto.LABEL_OPTIONAL))
    if kind in KINDS:
        field.type = KINDS[kind]
    else:
        field.type = FieldDescriptorProto.TYPE_ENUM if more.pop("enum", False) else FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = kind
    if more.pop("optional", False):
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")
    return field


def classes(*files: FileDescriptorProto) -> dict[str, Any]:
    """Return the classes of all messages in some files, by full name."""
    pool = descriptor_pool.DescriptorPool()
    for name in ("timestamp", "duration", "wrappers", "struct"):
        module = __import__(f"google.protobuf.{name}_pb2", fromlist=["DESCRIPTOR"])
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    found: dict[str, Any] = {}
    for file in files:
        for message in pool.FindFileByName(file.name).message_types_by_name.values():
            found[message.full_name] = message_factory.GetMessageClass(message)
            for inner in message.nested_types:
                found[inner.full_name] = message_factory.GetMessageClass(inner)
    return found


def proto3(name: str, package: str = "shop") -> FileDescriptorProto:
    """Return an empty file."""
    imports = [f"google/protobuf/{name}.proto" for name in ("timestamp", "duration", "wrappers", "struct")]
    return FileDescriptorProto(name=name, package=package, syntax="proto3", dependency=imports)


def order_file(name: str = "shop/order.proto") -> FileDescriptorProto:
    """Return a file with an order that has a field of every kind, behind another message."""
    file = proto3(name)
    color = file.enum_type.add(name="Color")
    for number, label in enumerate(("RED", "GREEN")):
        color.value.add(name=label, number=number)
    customer = file.message_type.add(name="Customer")
    add_field(customer, 1, "name", "string")
    order = file.message_type.add(name="Order")
    item = order.nested_type.add(name="Item")
    add_field(item, 1, "sku", "string")
    add_field(item, 2, "count", "int32")
    entry = order.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    add_field(entry, 1, "key", "string")
    add_field(entry, 2, "value", "int64")
    repeated = FieldDescriptorProto.LABEL_REPEATED
    add_field(order, 1, "id", "int64")
    add_field(order, 2, "name", "string")
    add_field(order, 3, "price", "double")
    add_field(order, 4, "paid", "bool")
    add_field(order, 5, "raw", "bytes")
    add_field(order, 6, "big", "uint64")
    add_field(order, 7, "at", ".google.protobuf.Timestamp")
    add_field(order, 8, "took", ".google.protobuf.Duration")
    add_field(order, 9, "limit", ".google.protobuf.Int64Value")
    add_field(order, 10, "color", ".shop.Color", enum=True)
    add_field(order, 11, "customer", ".shop.Customer")
    add_field(order, 12, "items", ".shop.Order.Item", label=repeated)
    add_field(order, 13, "tags", ".shop.Order.TagsEntry", label=repeated)
    add_field(order, 14, "numbers", "int32", label=repeated)
    add_field(order, 15, "note", "string", optional=True)
    return file


ORDER = classes(order_file())["shop.Order"]
