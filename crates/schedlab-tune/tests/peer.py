"""Optuna's side of the evidence: asks for points on stdout, reads their values from stdin.

Arguments: the sampler (tpe or gp), the seed, the budget, and the axes: n24 for 24 ordered levels, w3 for
three words, n24:0:1 for an axis that exists beside level 1 of axis 0.
"""

import sys

import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)
sampler, seed, budget, axes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]


def chosen(trial):
    point = []
    for index, axis in enumerate(axes):
        count, *when = axis[1:].split(":")
        if when and point[int(when[0])] != int(when[1]):
            point.append(0)
        elif axis[0] == "w":
            point.append(trial.suggest_categorical(str(index), list(range(int(count)))))
        else:
            point.append(trial.suggest_int(str(index), 0, int(count) - 1))
    return point


def objective(trial):
    point = chosen(trial)
    trial.set_user_attr("point", point)
    print("point", *point, flush=True)
    return float(sys.stdin.readline())


samplers = {"tpe": optuna.samplers.TPESampler, "gp": optuna.samplers.GPSampler}
study = optuna.create_study(sampler=samplers[sampler](seed=seed))
study.optimize(objective, n_trials=budget)
print("best", *study.best_trial.user_attrs["point"], flush=True)
