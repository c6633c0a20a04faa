"""A copy in a notebook that a kernel of Jupyter runs."""

import nbformat
from nbclient import NotebookClient

CELLS = [
    "import tidegate, pathlib\n"
    "pathlib.Path('data').mkdir()\n"
    "[pathlib.Path(f'data/{i}').write_bytes(bytes(1 << 20)) for i in range(24)];",
    "result = tidegate.copy('data', 'there/', limit_link='200Mbit/s')",
    "result.plot()",
    "async def both():\n    await tidegate.aio.copy('data', 'again/')\nawait both()",
    "tidegate.copy('data', 'quiet/', progress=False);",
]


def html(cell):
    """What a cell shows, in the end."""
    return "".join(output["data"].get("text/html", "") for output in cell.outputs if output.output_type != "stream")


def test_a_cell_shows_progress_and_curves(tmp_path, world):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    client = NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}})
    updates = []
    seen = client.process_message

    def counted(message, cell, index):
        updates.append(message["msg_type"])
        return seen(message, cell, index)

    client.process_message = counted
    client.execute()
    _, copied, plotted, awaited, quiet = notebook.cells
    assert "copy · done · 24.0 MiB of 24.0 MiB · 24 files" in html(copied)
    assert html(copied).count("<svg") == 1
    assert updates.count("update_display_data") >= 2
    assert html(plotted).count("<svg") == 1 and "workers" in html(plotted)
    assert "done" in html(awaited)
    assert html(quiet) == ""
