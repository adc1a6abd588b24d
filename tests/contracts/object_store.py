"""An object store as `pyarrow.fs` shows one: no folders, and a file appears when its stream is closed."""

import io

import pyarrow as pa
from pyarrow import fs


class ObjectStore(fs.FileSystemHandler):
    def __init__(self):
        self.objects = {}

    def get_type_name(self):
        return "objects"

    def normalize_path(self, path):
        return path

    def _info(self, path):
        if path in self.objects:
            return fs.FileInfo(path, fs.FileType.File, size=len(self.objects[path]))
        is_folder = any(name.startswith(path + "/") for name in self.objects)
        return fs.FileInfo(path, fs.FileType.Directory if is_folder else fs.FileType.NotFound)

    def get_file_info(self, paths):
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector):
        prefix = selector.base_dir + "/"
        names = {name[len(prefix) :].split("/")[0] for name in self.objects if name.startswith(prefix)}
        return [self._info(prefix + name) for name in sorted(names)]

    def open_input_stream(self, path):
        if path not in self.objects:
            raise FileNotFoundError(path)
        return pa.BufferReader(self.objects[path])

    def open_output_stream(self, path, metadata):
        store = self.objects

        class Upload(io.BytesIO):
            def close(self):
                if not self.closed:
                    store[path] = self.getvalue()
                super().close()

        return pa.PythonFile(Upload(), "w")

    def delete_file(self, path):
        if self.objects.pop(path, None) is None:
            raise FileNotFoundError(path)

    def delete_dir(self, path):
        names = [name for name in self.objects if name.startswith(path + "/")]
        if not names:
            raise FileNotFoundError(path)
        for name in names:
            del self.objects[name]

    def unused(self, *arguments):
        raise NotImplementedError("an object store offers no such thing")

    create_dir = delete_dir_contents = delete_root_dir_contents = move = copy_file = unused
    open_input_file = open_append_stream = unused
