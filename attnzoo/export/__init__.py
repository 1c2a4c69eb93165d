"""Models of the zoo without torch: ONNX graphs with their decode loop, the program that runs them, and CTranslate2."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..installing import pip_install

if TYPE_CHECKING:
    from .ctranslate2_folder import to_ctranslate2
    from .onnx_folder import to_onnx
    from .pipeline_model import OnnxForPipelines
    from .run import OnnxModel

__all__ = ["OnnxForPipelines", "OnnxModel", "to_ctranslate2", "to_onnx"]

# Each needs other libraries, so it is imported when it is used.
MODULES = {
    "OnnxForPipelines": "pipeline_model",
    "OnnxModel": "run",
    "to_ctranslate2": "ctranslate2_folder",
    "to_onnx": "onnx_folder",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            return getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"{error}; {pip_install('export')}", name=error.name) from error
