"""The initial weights of the attentional RNN, as the paper of its wiring draws them."""

import torch
from torch import nn
from transformers import initialization as init


def initialise(module: nn.Module, wiring: str, scale: float, forget_gate_bias: float | None) -> None:
    r"""Initialise as the paper of the wiring does, r being ``scale``.

    Cho (2014, section 4.1.1) and Bahdanau (2014, appendix B.1), r = 0.01: recurrent matrices orthogonal, gate by
    gate; all biases 0; everything else from N(0, r^2). The decoder then sets Bahdanau's additive score itself
    (``AttentionalRNNDecoder._init_weights``): :math:`W_a, U_a` from N(0, (r / 10)^2), :math:`v_a` to 0.
    Sutskever (2014, section 3.4), r = 0.08, and Luong (2015, section 4.1), r = 0.1: everything from U(-r, r).
    """
    own = dict(module.named_parameters(recurse=False))
    for name, parameter in own.items():
        if wiring in ("sutskever", "luong"):
            init.uniform_(parameter, -scale, scale)
        elif name.startswith("bias"):
            init.zeros_(parameter)
        elif name.startswith("weight_h"):  # torch's weight_hh_l0 and ChoGRU's weight_hidden, gates stacked in rows
            gates = parameter.new_empty(parameter.shape).split(parameter.shape[1])
            init.copy_(parameter, torch.cat([nn.init.orthogonal_(gate) for gate in gates]))
        else:
            init.normal_(parameter, std=scale)
    if isinstance(module, nn.LSTM) and forget_gate_bias is not None:
        # Of torch's two biases, which are added, one takes the value and the other nothing.
        for name, value in (("bias_ih_l0", forget_gate_bias), ("bias_hh_l0", 0.0)):
            bias = own[name].clone()
            bias[module.hidden_size : 2 * module.hidden_size] = value  # gates i, f, g, o
            init.copy_(own[name], bias)
