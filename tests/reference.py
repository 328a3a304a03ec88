"""Definitions written as loops: slow, obvious, and independent of the package."""

from __future__ import annotations

import itertools
import math

import numpy as np


def influence(mu, rates):
    """kappa_t directly from its definition."""
    T = len(rates)
    kappa = np.zeros(T)
    for t in range(T):
        for m in mu:
            product = 1.0
            for s in range(t + 1, T):
                product *= (1.0 - rates[s] * m) ** 2
            kappa[t] += rates[t] ** 2 * m**2 * product
    return kappa


def log_influence(mu, rates):
    """log kappa_t in extended precision, by sums of logarithms."""
    rates = np.asarray(rates, dtype=np.longdouble)
    terms = []
    for m in np.asarray(mu, dtype=np.longdouble):
        with np.errstate(divide="ignore"):
            steps = np.log(np.abs(1 - rates * m))
        after = np.append(np.cumsum(steps[:0:-1])[::-1], np.longdouble(0.0))
        terms.append(2 * np.log(m) + 2 * after)
    with np.errstate(divide="ignore"):
        return np.logaddexp.reduce(np.array(terms), axis=0) + 2 * np.log(rates)


def effective_batch(kappa, batches):
    return sum(kappa) / sum(k / b for k, b in zip(kappa, batches, strict=True))


def effective_fluctuation(kappa, batches, N, replacement=False):
    rho = [1 / b if replacement else (N - b) / (b * (N - 1)) for b in batches]
    return sum(k * r for k, r in zip(kappa, rho, strict=True)) / sum(kappa)


def best_integers(kappa, budget, low=1, high=None, unit=1):
    """The smallest sum kappa_t / B_t over all schedules, by enumeration."""
    high = budget if high is None else high
    sizes = [b for b in range(low, high + 1) if b % unit == 0]
    best = math.inf
    for batches in itertools.product(sizes, repeat=len(kappa) - 1):
        last = budget - sum(batches)
        if last in sizes:
            cost = sum(k / b for k, b in zip(kappa, (*batches, last), strict=True))
            best = min(best, cost)
    return best


def paper_rounding(weights, budget):
    """One per step, the rest in proportion by largest remainders, ties to the earliest step."""
    total = sum(weights)
    quota = [(budget - len(weights)) * w / total for w in weights]
    batches = [1 + math.floor(q) for q in quota]
    order = sorted(range(len(weights)), key=lambda i: -(quota[i] - math.floor(quota[i])))
    for i in order[: budget - sum(batches)]:
        batches[i] += 1
    return batches


def sgd(features, labels, rates, index_sets):
    """u <- u - gamma/B sum_i z_i (z_i . u - y_i), one sample at a time."""
    u = np.zeros(features.shape[1])
    for rate, rows in zip(rates, index_sets, strict=True):
        gradient = np.zeros_like(u)
        for i in rows:
            gradient += features[i] * (features[i] @ u - labels[i])
        u = u - rate / len(rows) * gradient
    return u


def partition(batches):
    """Index sets of one pass, in the order of the dataset."""
    ends = np.cumsum(batches)
    return [range(end - b, end) for end, b in zip(ends, batches, strict=True)]


def subsets(N, batches, rng):
    """Index sets without replacement: a partial Fisher-Yates shuffle, continued at each step."""
    rows = list(range(N))
    for batch in batches:
        for k in range(batch):
            p = k + int(rng.random() * (N - k))
            rows[k], rows[p] = rows[p], rows[k]
        yield rows[:batch]


def with_replacement(N, batches, rng):
    for batch in batches:
        yield [int(rng.random() * N) for _ in range(batch)]


def epochs(N, batches, rng):
    """Index sets of random reshuffling; a batch may span two epochs."""
    rows = list(range(N))
    remaining = []
    for batch in batches:
        picked = []
        while len(picked) < batch:
            if not remaining:
                for k in range(N):
                    p = k + int(rng.random() * (N - k))
                    rows[k], rows[p] = rows[p], rows[k]
                remaining = list(rows)
            picked.append(remaining.pop(0))
        yield picked


def gradient_descent(features, labels, rates):
    theta = np.zeros(features.shape[1])
    for rate in rates:
        gradient = np.zeros_like(theta)
        for z, y in zip(features, labels, strict=True):
            gradient += z * (z @ theta - y) / len(labels)
        theta = theta - rate * gradient
    return theta


def dense_one_pass(covariance, optimum, s2, rates, batches):
    """Bias, noise variance and covariance variance from full matrices (paper, appendix F).

    Gaussian fourth moments: E[(zz' - S) C (zz' - S)] = S C S + S tr(S C).
    """
    S = covariance
    identity = np.eye(len(optimum))
    mean = -np.asarray(optimum, dtype=float)
    noise = np.zeros_like(S)
    cov = np.zeros_like(S)

    def spread(C):
        return S @ C @ S + S * np.trace(S @ C)

    for rate, batch in zip(rates, batches, strict=True):
        A = identity - rate * S
        e = rate**2 / batch
        noise = A @ noise @ A + e * (spread(noise) + s2 * S)
        cov = A @ cov @ A + e * spread(cov + np.outer(mean, mean))
        mean = A @ mean
    return mean @ S @ mean, np.trace(S @ noise), np.trace(S @ cov)


def sketched_problem(weights, columns, eigenvalues, sigma):
    """Sigma's eigenvalues, (Q'u*)_j^2, Approx and s2 from the full S, H and w*.

    ``columns`` is S.
    """
    S, H = columns, np.diag(eigenvalues)
    Sigma = S @ H @ S.T
    u = np.linalg.solve(Sigma, S @ H @ weights)
    approximation = weights @ H @ weights - u @ Sigma @ u
    mu, Q = np.linalg.eigh(Sigma)
    return mu[::-1], ((Q.T @ u) ** 2)[::-1], approximation, sigma**2 + approximation


# Update rules as their authors write them: (error, velocity, gradient function) -> new pair.
def heavy_ball(e, d, gradient, rate, beta):
    d = beta * d - rate * gradient(e)
    return e + d, d


def nesterov(e, d, gradient, rate, beta):
    d = beta * d - rate * gradient(e + beta * d)
    return e + d, d


def torch_heavy_ball(e, v, gradient, rate, beta):
    v = beta * v + gradient(e)
    return e - rate * v, v


def torch_nesterov(e, v, gradient, rate, beta):
    g = gradient(e)
    v = beta * v + g
    return e - rate * (g + beta * v), v


def dense_momentum(covariance, optimum, s2, rates, batches, betas, step, average):
    """Bias and variance of the readout from full matrices over (e, v, s), in any basis.

    The linear maps and the gradient point are found by probing ``step`` with unit vectors; the
    noise covariance of a Gaussian batch there is (S Y S + S tr(S Y) + s2 S)/B.
    """
    S = covariance
    M = len(optimum)
    unit = np.eye(2 * M)
    mean = np.concatenate([-np.asarray(optimum), np.zeros(M), -(1 - sum(average)) * optimum])
    P = np.zeros((3 * M, 3 * M))
    for rate, batch, beta, weight in zip(rates, batches, betas, average, strict=True):

        def probe(x, gradient, rate=rate, beta=beta, weight=weight):
            e, v = step(x[:M], x[M:], gradient, rate, beta)
            return np.concatenate([e, v, weight * e])

        F = np.zeros((3 * M, 3 * M))
        F[:, : 2 * M] = np.stack([probe(x, lambda y: S @ y) for x in unit], axis=1)
        F[2 * M :, 2 * M :] = np.eye(M)
        columns = []  # of the map from (e, v) to the point where the gradient is taken
        for x in unit:
            points = []
            probe(x, lambda y, points=points: points.append(y) or np.zeros(M))
            columns.append(points[0])
        G = np.stack(columns, axis=1)
        into = np.stack([probe(np.zeros(2 * M), lambda y, n=n: n) for n in np.eye(M)], axis=1)
        centre = G @ mean[: 2 * M]
        Y = G @ P[: 2 * M, : 2 * M] @ G.T + np.outer(centre, centre)
        noise = (S @ Y @ S + S * np.trace(S @ Y) + s2 * S) / batch
        P = F @ P @ F.T + into @ noise @ into.T
        mean = F @ mean
    s = mean[2 * M :]
    return s @ S @ s, np.trace(S @ P[2 * M :, 2 * M :])


def influence_by_perturbation(mu, rates, betas, step, average):
    """kappa_t = sum_j mu_j^2 psi_tj^2, psi from a run with unit noise at step t only."""
    kappa = np.zeros(len(rates))
    for t in range(len(rates)):
        for m in mu:
            e = v = s = 0.0
            for k, (rate, beta, weight) in enumerate(zip(rates, betas, average, strict=True)):
                e, v = step(e, v, lambda y, k=k: m * y + (k == t), rate, beta)  # noqa: B023
                s += weight * e
            kappa[t] += (m * s) ** 2
    return kappa


def dense_fluctuation(covariance, features, labels, rates, batches, replacement=False):
    """tr(Sigma C_L) from full matrices, sample by sample, without the data's eigenbasis.

    The covariance of a batch mean is rho/N sum_i of (g_i - mean g)(g_i - mean g)^T, where
    g_i = z_i (z_i . u - y_i) at u = theta + noise of covariance C (paper, appendices I and J).
    """
    N, M = features.shape
    hessians = [np.outer(z, z) for z in features]
    mean_hessian = sum(hessians) / N
    theta, C = np.zeros(M), np.zeros((M, M))
    for rate, batch in zip(rates, batches, strict=True):
        rho = 1 / batch if replacement else (N - batch) / (batch * (N - 1))
        gradients = [z * (z @ theta - y) for z, y in zip(features, labels, strict=True)]
        mean = sum(gradients) / N
        noise = np.zeros((M, M))
        for hessian, gradient in zip(hessians, gradients, strict=True):
            away = hessian - mean_hessian
            noise += (np.outer(gradient - mean, gradient - mean) + away @ C @ away) / N
        A = np.eye(M) - rate * mean_hessian
        C = A @ C @ A + rate**2 * rho * noise
        theta = theta - rate * mean
    return np.trace(covariance @ C)


def index_sequences(N, batches, replacement=False):
    """Every sequence of batches, all equally likely."""
    if replacement:
        choices = [itertools.product(range(N), repeat=b) for b in batches]
    else:
        choices = [itertools.combinations(range(N), b) for b in batches]
    return itertools.product(*choices)


def epoch_sequences(N, batches):
    """Every sequence of batches of random reshuffling: all orders of every epoch."""
    epochs = -(-sum(batches) // N)
    ends = np.cumsum(batches)
    for orders in itertools.product(itertools.permutations(range(N)), repeat=epochs):
        rows = [i for order in orders for i in order]
        yield [rows[end - b : end] for end, b in zip(ends, batches, strict=True)]


def enumerated(mu, optimum, features, labels, rates, sequences):
    """E|u - theta|^2 and 2 E<theta - u*, u - theta> in Sigma = diag(mu), over all sequences."""
    theta = gradient_descent(features, labels, rates)
    away = np.array([sgd(features, labels, rates, rows) - theta for rows in sequences])
    return (away**2 @ mu).mean(), 2 * (mu * (theta - optimum)) @ away.mean(axis=0)


def momentum_run(features, labels, rates, index_sets, betas, step, average):
    """SGD with any of the steps above from zero, read out by weights on its iterates."""
    u = v = readout = np.zeros(features.shape[1])
    for rate, rows, beta, weight in zip(rates, index_sets, betas, average, strict=True):

        def gradient(y, rows=rows):
            return sum(features[i] * (features[i] @ y - labels[i]) for i in rows) / len(rows)

        u, v = step(u, v, gradient, rate, beta)
        readout = readout + weight * u
    return readout


def adam_run(features, labels, rates, index_sets, rule, average):
    """Adam from zero as its paper states it, read out by weights on its iterates."""
    u = m = v = readout = np.zeros(features.shape[1])
    for t, (rate, rows) in enumerate(zip(rates, index_sets, strict=True), start=1):
        G = sum(features[i] * (features[i] @ u - labels[i]) for i in rows) / len(rows)
        square = np.full_like(G, np.mean(G**2)) if rule.basis == "generic" else G**2
        m = rule.beta1 * m + (1 - rule.beta1) * G
        v = rule.beta2 * v + (1 - rule.beta2) * square
        m_hat, v_hat = m / (1 - rule.beta1**t), v / (1 - rule.beta2**t)
        u = u - rate * rule.weight_decay * u - rate * m_hat / (np.sqrt(v_hat) + rule.eps)
        readout = readout + average[t - 1] * u
    return readout


def dense_momentum_fluctuation(
    covariance, features, labels, rates, batches, betas, step, average, replacement=False
):
    """tr(Sigma Cov(readout)) given the data, from full matrices over (u, v, readout).

    The maps are found by probing ``step`` with unit vectors, the covariance of a batch's gradient
    sample by sample at the point where it is taken, as in ``dense_fluctuation``.
    """
    N, M = features.shape
    hessians = [np.outer(z, z) for z in features]
    mean_hessian, correlation = sum(hessians) / N, features.T @ labels / N
    mean, C = np.zeros(2 * M), np.zeros((3 * M, 3 * M))
    for rate, batch, beta, weight in zip(rates, batches, betas, average, strict=True):

        def probe(x, gradient, rate=rate, beta=beta, weight=weight):
            u, v = step(x[:M], x[M:], gradient, rate, beta)
            return np.concatenate([u, v, weight * u])

        def point(x, probe=probe):
            points = []
            probe(x, lambda at: points.append(at) or np.zeros(M))
            return points[0]

        unit = np.eye(2 * M)
        F = np.zeros((3 * M, 3 * M))
        F[:, : 2 * M] = np.stack([probe(x, lambda y: mean_hessian @ y) for x in unit], axis=1)
        F[2 * M :, 2 * M :] = np.eye(M)
        G = np.stack([point(x) for x in unit], axis=1)
        into = np.stack([probe(np.zeros(2 * M), lambda y, n=n: n) for n in np.eye(M)], axis=1)
        y, spread = point(mean), G @ C[: 2 * M, : 2 * M] @ G.T
        gradients = [z * (z @ y - label) for z, label in zip(features, labels, strict=True)]
        noise = np.zeros((M, M))
        for hessian, gradient in zip(hessians, gradients, strict=True):
            away = gradient - sum(gradients) / N
            turned = hessian - mean_hessian
            noise += (np.outer(away, away) + turned @ spread @ turned) / N
        rho = 1 / batch if replacement else (N - batch) / (batch * (N - 1))
        C = F @ C @ F.T + rho * into @ noise @ into.T
        mean = probe(mean, lambda y: mean_hessian @ y - correlation)[: 2 * M]
    return np.trace(covariance @ C[2 * M :, 2 * M :])


def dense_adam(covariance, optimum, s2, rates, batches, rule, average, generic=False):
    """Bias and variance of Adam's readout by full matrices over (e, m, s), v at its mean.

    ``rule`` has beta1, beta2, eps and weight_decay; ``average`` the weights on the iterates.
    """
    S = covariance
    M = len(optimum)
    u = np.asarray(optimum, dtype=float)
    mean = np.concatenate([-u, np.zeros(M), -(1 - sum(average)) * u])
    P = np.zeros((3 * M, 3 * M))
    v = np.zeros(M)
    identity, zero = np.eye(M), np.zeros((M, M))
    b1, b2 = rule.beta1, rule.beta2
    steps = zip(rates, batches, average, strict=True)
    for t, (rate, batch, weight) in enumerate(steps, start=1):
        Y = P[:M, :M] + np.outer(mean[:M], mean[:M])
        noise = (S @ Y @ S + (np.trace(S @ Y) + s2) * S) / batch
        square = np.diag(S @ Y @ S + noise)
        v = b2 * v + (1 - b2) * (np.full(M, square.mean()) if generic else square)
        D = np.diag(rate / (1 - b1**t) / (np.sqrt(v / (1 - b2**t)) + rule.eps))
        keep = 1 - rate * rule.weight_decay
        first = np.block([(1 - b1) * S, b1 * identity, zero])
        error = np.block([keep * identity, zero, zero]) - D @ first
        F = np.vstack([error, first, weight * error])
        F[2 * M :, 2 * M :] += identity
        into = (1 - b1) * np.vstack([-D, identity, -weight * D])
        shift = np.concatenate([-rate * rule.weight_decay * u, np.zeros(M), np.zeros(M)])
        shift[2 * M :] = weight * shift[:M]
        mean = F @ mean + shift
        P = F @ P @ F.T + into @ noise @ into.T
    s = mean[2 * M :]
    return s @ S @ s, np.trace(S @ P[2 * M :, 2 * M :])
