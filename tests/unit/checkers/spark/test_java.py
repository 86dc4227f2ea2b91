import subprocess
from pathlib import Path

from highwater.checkers.spark.java import write_java_home


def test_the_java_home_starts_without_the_module_that_the_jre_lacks(tmp_path: Path) -> None:
    folder = tmp_path / "it's a folder"
    folder.mkdir()
    java = write_java_home(folder) / "bin" / "java"
    module = "--add-modules=jdk.incubator.vector"
    done = subprocess.run([java, module, "-Da=b c", "-version"], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
