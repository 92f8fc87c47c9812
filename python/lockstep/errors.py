"""The one exception of this package: what the user can mend, in one line."""


class CompileError(Exception):
    """The model, its loss or the example batch cannot be compiled. The message says what and where."""


def one_line(error: BaseException, longest: int = 300) -> str:
    """The first line of a message that says something, cut."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return text if len(text) <= longest else text[:longest] + "..."
