"""Writes ppo.json: what PyTorch makes of PPO's losses, their gradients and one step of Adam, in double precision.

    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch && /tmp/torch/bin/python ppo.py

The tests of this crate hold their own networks to it; no test needs PyTorch. All values that both are given are
single-precision numbers, drawn with the seed below.
"""

import json
import pathlib

import torch
from torch import nn

SEED = 2017
torch.set_default_dtype(torch.float64)
torch.manual_seed(SEED)


class Block(nn.Module):
    """A block of the kind that control::policy::network names."""

    def __init__(self, kind, width):
        super().__init__()
        self.kind = kind
        if kind == "dense":
            self.linear = nn.Linear(width, width)
            return
        self.linear1 = nn.Linear(width, width)
        if kind == "normed":
            self.norm1 = nn.LayerNorm(width)
        self.linear2 = nn.Linear(width, width)
        if kind == "normed":
            self.norm2 = nn.LayerNorm(width)

    def forward(self, x):
        if self.kind == "dense":
            return torch.tanh(self.linear(x))
        if self.kind == "residual":
            return torch.tanh(x + self.linear2(torch.tanh(self.linear1(x))))
        return torch.tanh(x + self.norm2(self.linear2(torch.relu(self.norm1(self.linear1(x))))))


class Network(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.input = nn.Linear(shape["inputs"], shape["width"])
        self.block = nn.ModuleList(Block(shape["block"], shape["width"]) for _ in range(shape["blocks"]))
        self.head = nn.Linear(shape["width"], shape["outputs"])
        for parameter in self.parameters():
            # Off what norms begin with, and a number that single precision has.
            parameter.data = single(parameter.data + 0.1 * torch.randn_like(parameter))

    def forward(self, x):
        x = torch.tanh(self.input(x))
        for block in self.block:
            x = block(x)
        return self.head(x)


def single(tensor):
    return tensor.float().double()


def normal(*size):
    return single(torch.randn(*size))


def flat(tensors):
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def numbers(tensor):
    """Nine digits give a single-precision number back; what was computed has no more that count."""
    return [float(f"{value:.9g}") for value in tensor.detach().reshape(-1).tolist()]


def step(parameters, loss, rate, longest):
    """The gradient of `loss`, and `parameters` after a step of Adam against it."""
    parameters = list(parameters)
    optimizer = torch.optim.Adam(parameters, lr=rate)
    optimizer.zero_grad()
    loss.backward(inputs=parameters, retain_graph=True)
    gradient = flat(parameter.grad for parameter in parameters)
    nn.utils.clip_grad_norm_(parameters, longest)
    optimizer.step()
    return numbers(gradient), numbers(flat(parameters))


def actor(name, shape, choices, rows, clip, entropy, rate, longest):
    network = Network(shape)
    log_sigma = nn.Parameter(single(0.3 * torch.randn(shape["outputs"]) - 0.5))
    states, advantages = normal(rows, shape["inputs"]), normal(rows)
    answers = network(states)
    if choices:
        distributions = [torch.distributions.Categorical(logits=part) for part in answers.split(choices, -1)]
        drawn = [distribution.sample() for distribution in distributions]
        actions = torch.cat([nn.functional.one_hot(d, n) for d, n in zip(drawn, choices)], -1).double()
        log_density = sum(d.log_prob(a) for d, a in zip(distributions, drawn))
        entropies = sum(d.entropy() for d in distributions)
    else:
        distribution = torch.distributions.Normal(answers, log_sigma.exp())
        actions = single(distribution.sample())
        log_density = distribution.log_prob(actions).sum(-1)
        entropies = distribution.entropy().sum(-1)
    # Who acted was another policy by then: some ratios lie beyond the clip, on either side.
    log_densities = single(log_density.detach() + 0.3 * torch.randn(rows))
    ratio = (log_density - log_densities).exp()
    assert (ratio > 1 + clip).any() and (ratio < 1 - clip).any()
    surrogate = torch.min(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages).mean()
    loss = -(surrogate + entropy * entropies.mean())
    case = {
        "name": name, "shape": shape, "choices": choices, "clip": clip, "entropy": entropy, "rate": rate,
        "longest": longest, "parameters": numbers(flat(network.parameters())),
        "log_sigma": [] if choices else numbers(log_sigma), "states": numbers(states), "actions": numbers(actions),
        "log_densities": numbers(log_densities), "advantages": numbers(advantages), "answers": numbers(answers),
        "surrogate": surrogate.item(), "mean_entropy": entropies.mean().item(),
    }
    # The spread has an optimiser of its own. Steps change parameters in place, so its gradient comes first.
    spread = ([], []) if choices else step([log_sigma], loss, rate, longest)
    case["gradient_log_sigma"], case["log_sigma_after"] = spread
    case["gradient"], case["after"] = step(network.parameters(), loss, rate, longest)
    return case


def critic(name, shape, rows, weight, rate, longest):
    network = Network(shape)
    states, returns = normal(rows, shape["inputs"]), normal(rows)
    values = network(states)
    loss = weight * 0.5 * (values.squeeze(-1) - returns).square().mean()
    case = {
        "name": name, "shape": shape, "weight": weight, "rate": rate, "longest": longest,
        "parameters": numbers(flat(network.parameters())), "states": numbers(states), "returns": numbers(returns),
        "values": numbers(values), "loss": loss.item(),
    }
    case["gradient"], case["after"] = step(network.parameters(), loss, rate, longest)
    return case


def gae(steps, ended, gamma, lam):
    """By the definition: the sum of (gamma lambda)^l of the surprises to come."""
    rewards, values = normal(steps), normal(steps + 1)
    following = values[1:].clone()
    if ended:
        following[-1] = 0
    surprises = rewards + gamma * following - values[:-1]
    weights = torch.tensor([(gamma * lam) ** l for l in range(steps)])
    advantages = torch.stack([(weights[: steps - t] * surprises[t:]).sum() for t in range(steps)])
    standardized = (advantages - advantages.mean()) / (advantages.std(unbiased=False) + 1e-5)
    return {
        "rewards": numbers(rewards), "values": numbers(values), "ended": ended, "gamma": gamma, "lambda": lam,
        "advantages": numbers(advantages), "standardized": numbers(standardized),
    }


def shape(inputs, width, blocks, block, outputs):
    return {"inputs": inputs, "width": width, "blocks": blocks, "block": block, "outputs": outputs}


reference = {
    "made_by": f"ppo.py with PyTorch {torch.__version__.split('+')[0]} and seed {SEED}",
    "actors": [
        actor("normed, as LDM's and AutoMDT's", shape(4, 8, 2, "normed", 3), [], 24, 0.2, 0.01, 1e-3, 0.5),
        actor("dense, as ours", shape(5, 8, 2, "dense", 2), [], 24, 0.2, 0.001, 3e-3, 1e9),
        actor("choices, as automdt_discrete's", shape(3, 8, 1, "normed", 9), [2, 4, 3], 24, 0.1, 0.02, 1e-3, 0.05),
    ],
    "critics": [
        critic("residual, as LDM's and AutoMDT's", shape(4, 8, 2, "residual", 1), 24, 1.0, 1e-3, 0.5),
        critic("dense, as ours", shape(5, 8, 2, "dense", 1), 24, 0.5, 3e-3, 1e9),
    ],
    "gae": [gae(8, False, 0.99, 0.95), gae(8, True, 0.9, 0.8), gae(5, True, 0.99, 0.0)],
}

lines = json.dumps(reference).replace('"gradient"', '\n"gradient"').replace('{"name"', '\n{"name"')
pathlib.Path(__file__).with_name("ppo.json").write_text(lines + "\n")
