"""The product has no circle of imports, types included; tests import Spark where they use it."""

import subprocess
import sys

import grimp
import rustworkx


def test_no_module_imports_itself_through_others() -> None:
    graph = grimp.build_graph("highwater", exclude_type_checking_imports=False, cache_dir=None)
    modules = sorted(graph.modules)
    number = {module: place for place, module in enumerate(modules)}
    edges = [
        (number[module], number[imported])
        for module in modules
        for imported in graph.find_modules_directly_imported_by(module)
    ]
    assert len(edges) > len(modules) > 300
    drawn: rustworkx.PyDiGraph[int | None, int | None] = rustworkx.PyDiGraph()
    drawn.add_nodes_from(range(len(modules)))
    drawn.extend_from_edge_list(edges)
    components = rustworkx.strongly_connected_components(drawn)
    circles = [[modules[i] for i in component] for component in components if len(component) > 1]
    assert (len(components), circles) == (len(modules), [])


def test_tests_of_faults_are_collected_where_there_is_no_spark() -> None:
    words = ["--collect-only", "-q", "-n0", "-p", "no:cacheprovider", "tests/unit/nemesis/faults"]
    code = (
        f"import sys; sys.modules['pyspark'] = None; import pytest; sys.exit(pytest.main({words}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
