"""What differs between a form in print and the right one, in a line each.

The errata page sets the two side by side. ``<<`` and ``>>`` enclose what differs.
"""

SLIPS = {
    # Chapters 01 to 04
    "ics-definition": (
        "The shift is the effect of <<the random start and of the variation of the "
        "data>>.",
        "It is the change of a layer's inputs that comes from <<the updates of the "
        "layers below>>.",
    ),
    "ics-measure": (
        "It is measured by <<the correlation>> of the two gradients.",
        "By <<the distance and the angle>> of the two gradients: correlation 1 can "
        "hide a large shift.",
    ),
    "bn-eps-small": (
        r"The output has unit variance, <<if $\epsilon$ is left out>>.",
        r"Its variance is <<$\sigma^2/(\sigma^2+\epsilon)$>>, near 1 only if "
        r"$\sigma^2\gg\epsilon$.",
    ),
    "bwd-dldy-activation": (
        r"$\partial\ell/\partial y$ depends on <<the activation>>.",
        "It depends on <<all that comes after $y$>>: the activation, the layers "
        "above, the loss, its targets.",
    ),
    "inf-mean": (
        r"$\mathbb E[x]=\mathbb E_B[\mu_B]$",
        r"$\mathbb E[x]=\mathbb E_B[\mu_B]$ <<$+\,\mathrm{Cov}_B(m_B,\mu_B)/"
        r"\mathbb E_B[m_B]$>>, which is 0 for batches of one size",
    ),
    "inf-var": (
        r"$\frac m{m-1}\mathbb E_B[\sigma_B^2]=\mathrm{Var}[x]$",
        r"$\frac m{m-1}\mathbb E_B[\sigma_B^2]=\mathrm{Var}[x]$ <<$-\,\bar c$>>, the "
        "average covariance within a batch",
    ),
    "inf-linear": (
        "Inference applies a <<linear>> transform.",
        "An <<affine>> one, $y=ax+b$; it is linear only if $b=0$.",
    ),
    "inf-complete": (
        "Mean and variance are a complete representation of <<the mini-batches>>.",
        "Of <<the inference transform>>: very different batches share them.",
    ),
    # Chapter 06
    "sant-setup": (
        r"$\sigma_j$ is the standard deviation of <<the normalised $\hat y_j$>>, "
        "which is 1.",
        r"$\sigma$ is the standard deviation of <<the inputs $x$>>.",
    ),
    "sant-lipschitz": (
        r"$\lVert\nabla_x\ell\rVert^2$ <<$\le$>> $\frac{\gamma^2}{\sigma^2}(\dots)$ "
        "with the gradient <<of the network without batch normalization>>",
        r"$\lVert\nabla_x\ell\rVert^2$ <<$=$>> $\frac{\gamma^2}{s^2}(\dots)$ with the "
        r"gradient $\delta$ <<that comes in from above>>",
    ),
    "sant-correlates": (
        r"The bound is tighter if <<the outgoing gradient $\nabla_x\ell$>> correlates "
        r"with $\hat x$.",
        r"If <<the incoming gradient $\delta$>> does. At $\epsilon=0$ the outgoing "
        r"one is orthogonal to $\hat x$.",
    ),
    "sant-hessian": (
        r"$v^\top\nabla_x^2\ell\,v$ <<$\le\dots$>> with gradient and Hessian <<of the "
        "network without batch normalization>>",
        r"$v^\top\nabla_x^2\ell\,v$ <<$=\dots$>> with those <<that come in from "
        "above>>",
    ),
    "sant-hessian-sign": (
        r"$\langle\delta,\hat x\rangle>0$ if <<$\hat g_j$ points to the minimum>>.",
        r"$\gamma\langle\delta,\hat x\rangle\ge0$ if <<$\ell$ is convex, least at "
        r"$y=c\mathbf 1$, and $(\beta-c)\langle\mathbf 1,\delta\rangle\le0$>>.",
    ),
    "sant-one-direction": (
        "The bound is on <<the largest eigenvalue>> of the Hessian.",
        "It is on the Hessian <<along the gradient>>; across it, the Hessian may be "
        "as large as you like.",
    ),
    "sant-minmax": (
        r"$\hat g\le\frac{\gamma^2}{\sigma^2}\big($<<$g^2$>>$\,-\,$<<$m\mu_g^2$>>"
        r"$\,-\,$<<$\lambda^2$>>$\langle\delta,\hat x\rangle^2\big)$",
        r"$\hat g=\frac{\gamma^2}{\sigma^2}\big($<<$g$>>$\,-\,$"
        r"<<$m\lambda^2\bar\delta^2$>>$\,-\,$<<$\frac{\lambda^2}m$>>"
        r"$\langle\delta,\hat x\rangle^2\big)$",
    ),
    "sant-init": (
        "The distance to the start shrinks for <<local optima of the two networks>>.",
        r"For <<one $W^*$ that is optimal in both, with $\langle W_0,W^*\rangle>0$, "
        "and its nearest multiple>>.",
    ),
    # Chapter 07
    "mf-monotone": (
        r"$\lambda$ decreases in the batch size <<for any nonlinearity>>.",
        r"<<For the identity and for $x^2$>>; another nonlinearity has "
        r"$\lambda(6)=1.33$ and $\lambda(\infty)=1.95$.",
    ),
    "mf-internal-contradiction": (
        r"$\lambda$ depends <<only on the nonlinearity>>.",
        r"$\lambda_\varphi(B)$ depends <<on the batch size, too>>.",
    ),
    "mf-only-skip": (
        "The explosion is relieved <<only by skip connections>>.",
        r"<<Also by a small scale $\gamma$>>, if $\varphi'(0)\ne0$: the factor falls "
        r"to $\frac{B-2}{B-3}$.",
    ),
    "mf-which-norm": (
        r"The <<norm>> of the gradient grows by $\frac\pi{\pi-1}=1.467$ a layer.",
        "The <<squared norm>> does; the norm grows by 1.211.",
    ),
    "mf-untrainable": (
        "Deep batch-normalized networks are <<untrainable>>.",
        "<<These stacks, with their initialisation,>> do not train in 200 steps; with "
        "a nearly linear activation they do.",
    ),
    # Chapter 08
    "k-gamma-clash": (
        r"$\gamma$ stands for <<the scale in one formula, for the shift in the next>>.",
        r"<<$g$>> is the scale, <<$\beta$>> the shift.",
    ),
    "k-ols-const": (
        r"$\min_{\tilde w}\,(2u^\top\tilde w+\tilde w^\top S\tilde w)$",
        r"$\min_{\tilde w}\,($<<$\mathbb E\,y^2+$>>$\,2u^\top\tilde w+"
        r"\tilde w^\top S\tilde w)$",
    ),
    "k-ols-bn": (
        r"$2\gamma\,$<<$\dfrac{u^\top w}{\lVert w\rVert_S+\gamma^2}$>>",
        r"$\mathbb E\,y^2+2g\,$<<$\dfrac{u^\top w}{\lVert w\rVert_S}+g^2$>>",
    ),
    "k-sublinear": (
        "Plain gradient descent on least squares converges <<sub-linearly>>.",
        r"It converges <<linearly>>, at the same rate $(1-\frac\mu L)^{2t}$.",
    ),
    "k-rayleigh": (
        r"For <<the plain gradient>>, with the eigenvalues of <<$B$>>, "
        r"<<$\rho(w_{t+1}-\lambda_2)$>> below the line and the power <<$2t$>> for "
        "one step.",
        r"For <<the $A$-gradient>>, with the eigenvalues of <<$Bv=\lambda Av$>>, "
        r"<<$\tilde\rho(w^+)-\lambda_2$>> and the power <<2>>.",
    ),
    "k-rayleigh-rank1": (
        "For a $B$ of rank one <<gradient descent>> has that rate: it arrives in one "
        "step.",
        r"<<The step along the $S$-gradient>> does. The plain gradient has the factor "
        r"$1-\frac\mu L$.",
    ),
    # Chapters 09 and 10
    "k-critline": (
        "<<All>> critical points lie on the line of $S^{-1}u$.",
        r"Those <<with $c_2\ne0$>> do; all do if $\varphi'>0$ everywhere and "
        r"$u\ne0$.",
    ),
    "k-h": (
        r"$h=\mathbb E[\varphi'](u^\top w)-\mathbb E[\varphi'']$<<$(u^\top w)^2$>>",
        r"$h=\mathbb E[\varphi'](u^\top w)-\mathbb E[\varphi'']$"
        r"<<$(u^\top w)(u^\top\tilde w)$>>",
    ),
    "k-gdnp-order": (
        r"After the step to $w_{t+1}$, <<$\gamma_t$>> is found by bisection at "
        "<<$w_t$>>.",
        "<<$g_{t+1}$>> is found at <<$w_{t+1}$>>.",
    ),
    "k-alpha-star": (
        r"It is assumed that <<$\arg\min_\alpha\lVert\nabla f(\alpha w)\rVert^2$>> is "
        "finite.",
        r"Needed is <<a length $g$ with $\partial_gf(w,g)=0$>>, inside a bracket of "
        "changing sign.",
    ),
    "k-scalar-bound": (
        r"$(\partial_\gamma f)^2\le\,$<<$2^{-T_s}\,\zeta\,\lvert b-a\rvert$>>"
        r"$\,/\mu^2$",
        r"$(\partial_gf)^2\le\,$<<$4^{-T_s}\,\zeta^2\,\lvert b-a\rvert^2$>>"
        r"$\,/\mu^2$",
    ),
    "k-combined": (
        r"<<$\lVert\nabla f\rVert^2$>>$\,\le\dots+\,$"
        r"<<$2^{-T_s}\,\zeta\,\lvert b-a\rvert$>>$\,/\mu^2$",
        r"<<$\lVert\nabla f\rVert_{S^{-1}}^2$>>$\,\le\dots+\,$"
        r"<<$4^{-T_s}\,\zeta^2\,\lvert b-a\rvert^2$>>$\,/\mu^2$",
    ),
    "k-nn-critline": (
        "The critical points of all hidden units lie on the line of $S^{-1}u$.",
        r"They do <<where the matrix $\beta$ is nonsingular>>.",
    ),
    "k-nn-alg2": (
        "GDNP on one unit has the rate of a halfspace, <<wherever the others are>>.",
        r"It has, <<with every other unit on the line or 0>>, as long as $h_i\ne0$ "
        r"and $g\ne0$.",
    ),
    "k-nn-bound": (
        r"<<$(1-\frac\mu L)^{2t}\,C$>>$\,(\rho(w_0)-\rho^*)+\,$"
        r"<<$2^{-T_s}\,\zeta\,\lvert b-a\rvert$>>$\,/\mu^2$",
        r"<<$(1-\frac\mu L)^{2T_d}\,C_i$>>$\,(\rho(w_0)-\rho^*)+\,$"
        r"<<$4^{-T_s}\,\zeta_i^2\,\lvert b-a\rvert^2$>>$\,/\mu^2$",
    ),
    "k-nn-overall": (
        "<<One run for each unit>> solves the whole problem at a linear rate.",
        "<<Repeated sweeps>> do so, near a critical point on the line, at the factor "
        "of Gauss–Seidel.",
    ),
    # Chapters 11 and 12
    "p-outer-relu": (
        r"A classifier for labels $\pm1$ may be <<$\sigma(W_K\,\sigma(\cdots))$>>.",
        r"<<$W_K\,\sigma(\cdots)$>>: a ReLU at the output is never negative.",
    ),
    "p-rho-product": (
        r"$\rho=\,$<<$\rho_1$>>$\prod_{k=1}^K\rho_k$",
        r"$\rho=\prod_{k=1}^K\rho_k$",
    ),
    "p-submult": (
        r"$\lVert AB\rVert_p\le\lVert A\rVert_p\lVert B\rVert_p$ for <<every $p$>>",
        r"For entrywise norms if <<$1\le p\le2$>>; for operator norms for every $p$.",
    ),
    "p-genbound": (
        r"<<$\ln$>>$\,(1+e^{-m})\ge[m\le0]$",
        r"<<$\log_2$>>$\,(1+e^{-m})\ge[m\le0]$",
    ),
    "p-bn-eq-wn": (
        "For one linear unit batch and weight normalization are identical.",
        "They are <<exactly if $S=cI$>>: if the inputs are white.",
    ),
    "p-sign-flow": (
        r"$\dot\rho_k=V_k^\top\frac{\partial\ell}{\partial W_k}$, "
        r"$\dot V_k=\rho_k\frac{\partial\ell}{\partial W_k}$",
        r"$\dot\rho_k=\,$<<$-$>>$\,V_k^\top\frac{\partial\ell}{\partial W_k}$, "
        r"$\dot V_k=\,$<<$-$>>$\,\rho_k\frac{\partial\ell}{\partial W_k}$",
    ),
    "p-gd-vs-wn": (
        "With a unit-norm constraint, gradient descent is <<equivalent to the "
        "unconstrained one>>.",
        r"It has <<the same critical points>>, and turns $\rho_k^2$ times as fast.",
    ),
    "p-fixedpoint": (
        "$T$ has <<one fixed point>>, whatever the start.",
        "It has <<two, $x/c$ and $-x/c$>>; the second repels.",
    ),
    "p-logt": (
        r"$\rho\approx\log t$",
        r"$\rho\approx\,$<<$\frac1\gamma$>>$\,\log t$, with the largest margin "
        r"$\gamma$",
    ),
    "p-deep-growth": (
        "The product of the norms <<diverges faster than logarithmically>>.",
        r"It exceeds $\frac1m\log t$ <<by $\frac1m(2-\frac2K)\log\log t$>>; their "
        "ratio tends to 1.",
    ),
    "p-rate-1": (
        r"$\log\sin\theta\sim\,$<<$-\frac12$>>$\,\log^2t$",
        r"$\log\sin\theta\sim\,$<<$-\frac1{2c^2}$>>$\,\log^2t$, with "
        r"$c=\lVert x\rVert$",
    ),
    "p-rate-general": (
        r"The direction converges as $1/\log t$, with weight normalization as "
        r"<<$t^{-\frac12\log t}$>>.",
        r"Both converge as <<$1/\log t$>>, with one constant, for two examples with "
        r"$a\ne b$.",
    ),
    # Chapters 13 and 14
    "p-shallow-count": (
        r"$(n+2)N\sim\,$<<$n$>>",
        "It grows with $n$ <<at a fixed $N$>>; at a fixed accuracy $N$ grows with "
        "$n$, too.",
    ),
    "p-typo-eps": (
        "The number grows as <<$e^{-n/m}$>>.",
        r"It grows as <<$\epsilon^{-n/m}$>>.",
    ),
    "approx-relu": (
        "The rate for infinitely differentiable activations extends to the ReLU, "
        "<<for every $m$>>.",
        r"ReLU networks of one layer need $(10\epsilon)^{-1/2}-1$ units <<whatever "
        "$m$ is>>: not for a large $m$.",
    ),
    "p-thm1": (
        r"The rate $\epsilon^{-n/m}$ <<is the best possible>>.",
        "It is <<if the parameters depend continuously on the function>>; if not, "
        r"for some $\sigma$ $O(\epsilon^{-(n-1)/m})$ units do.",
    ),
    "p-hess-linear": (
        r"The Hessian is proportional to $\sum_nx_nx_n^\top$.",
        r"It is $\sum_n$<<$e^{-y_nw^\top x_n}$>>$x_nx_n^\top$.",
    ),
    "p-degenerate": (
        r"At a finite $\rho$ the Hessian is <<nowhere 0>>.",
        "Gradient and Hessian are <<0 where all units of the first layer are off>>.",
    ),
    "p-sgdl": (
        "SGD concentrates on the <<most degenerate minima>>.",
        "On the most degenerate <<of equally deep ones>>: a minimum higher by "
        r"$\delta$ loses the factor $e^{-\delta/T}$.",
    ),
    "sgd-law": (
        "SGD with added white noise has <<exactly Boltzmann's>> distribution.",
        r"It has <<only if the noise as a whole is white>>, $D=TI$; SGD's own is not.",
    ),
}
