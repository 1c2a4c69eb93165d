"""misaki's fallback: espeak-ng, and rules that turn its output into Kokoro's phones."""

import json
import sys
from types import SimpleNamespace

sys.path.pop(0)
from misaki.espeak import EspeakFallback

if __name__ == "__main__":
    request = json.load(sys.stdin)
    fallback = EspeakFallback(british=request["accent"] == "gb")
    print(json.dumps([fallback(SimpleNamespace(text=word))[0] for word in request["words"]]))
