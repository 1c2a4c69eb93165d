"""The exercises of the lessons."""

from pathlib import Path
import attnzoo.assignments

FOLDER = Path(attnzoo.assignments.__file__).parent
CLASSES = {
    "lesson_1": "Encoder",
    "lesson_2": "AdditiveAttention",
    "lesson_3": "LuongDecoder",
    "lesson_4": "SelfAttention",
    "lesson_5": "CausalSelfAttention",
}
# The property that a typical fault breaks, the fault's name, and the solution's text with its replacement.
FAULTS = {
    "lesson_1": [
        ("padding", "final_state_from_padding", "self.gru(packed)", "self.gru(embedded)"),
        ("batch", "batch_mixed", "torch.cat([states[0], states[1]], dim=-1)", "states.reshape(len(ids), -1)"),
        (
            "dropout in eval mode",
            "dropout_in_eval",
            "self.dropout(self.embedding(ids))",
            "nn.functional.dropout(self.embedding(ids), 0.1)",
        ),
    ],
    "lesson_2": [
        ("softmax axis", "softmax_wrong_axis", "softmax(dim=-1)", "softmax(dim=1)"),
        (
            "padding",
            "mask_after_softmax",
            'scores.masked_fill(~mask.unsqueeze(1), float("-inf")).softmax(dim=-1)',
            "scores.softmax(dim=-1) * mask.unsqueeze(1)",
        ),
        ("padding", "padding_attended", "~mask", "mask"),
        (
            "query",
            "query_ignored",
            "torch.tanh(self.w(query).unsqueeze(2) + self.u(keys).unsqueeze(1))",
            "torch.tanh(self.w(query)).unsqueeze(2) + torch.tanh(self.u(keys)).unsqueeze(1)",
        ),
    ],
    "lesson_3": [
        (
            "step equals teacher forcing",
            "step_differs",
            "logits, state = self.decode(tokens.unsqueeze(1), state)",
            'logits, state = self.decode(tokens.unsqueeze(1), {**state, "hidden": state["hidden"].relu()})',
        ),
        (
            "beams",
            "beam_not_reordered",
            "{name: value[rows] for name, value in state.items()}",
            '{**state, "keys": state["keys"][rows]}',
        ),
        (
            "state left as it was",
            "cache_changed_in_place",
            'return logits, {**state, "hidden": last.squeeze(0)}',
            'state["hidden"] = last.squeeze(0)\n        return logits, state',
        ),
    ],
    "lesson_4": [
        ("scale", "scale_wrong", "math.sqrt(key.shape[-1])", "math.sqrt(x.shape[-1])"),
        ("softmax axis", "softmax_wrong_axis", "softmax(dim=-1)", "softmax(dim=1)"),
        ("padding", "padding_attended", "~mask.unsqueeze(1)", "~mask.unsqueeze(2)"),
        ("padding", "padding_attended", "~mask.unsqueeze(1)", "mask.unsqueeze(1)"),
    ],
    "lesson_5": [
        (
            "heads",
            "heads_mixed",
            "view(rows, length, self.num_heads, -1).transpose(1, 2)",
            "reshape(rows, self.num_heads, length, -1)",
        ),
        ("future", "future_leaked", " & torch.ones(length, length, dtype=torch.bool, device=x.device).tril()", ""),
        ("scale", "scale_wrong", "math.sqrt(key.shape[-1])", "math.sqrt(width)"),
        ("padding", "padding_attended", "mask[:, None, None] & ", ""),
        ("future", "future_leaked", ".tril()", ".triu()"),
    ],
}


def solution_of(lesson):
    (path,) = FOLDER.glob(f"{lesson}_*_solution.py")
    return path.read_text()
