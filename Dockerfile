# Two images. For a reader without Python, JupyterLab with the whole book:
#     docker build --tag bn-book .
#     docker run --rm --publish 127.0.0.1:8888:8888 bn-book
# For grading, with a user of its own for students' code (chapters/instructors.md):
#     docker build --target grading --tag bn-grading .
# With --build-arg TORCH_INDEX=ADDRESS, PyTorch comes from its own index for the CPU,
# which is gigabytes smaller.

FROM python:3.11-slim-bookworm AS base
ARG TORCH_INDEX=""
ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1
# The C kernel is compiled where it is first used. Its compiler may be any.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /book
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY bnlib bnlib

FROM base AS grading
RUN pip install ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} -c constraints.txt ".[course]" \
    && useradd --no-create-home student
# Without assignments: the image holds no solutions.
COPY grading grading
ENV PYTHONPATH=/book
WORKDIR /course

FROM base AS book
RUN pip install ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} -c constraints.txt -e ".[lab,course]" \
    && useradd --create-home --uid 1000 reader
COPY --chown=reader . .
USER 1000
EXPOSE 8888
CMD ["jupyter", "lab", "--ip=0.0.0.0", "--port=8888", "--no-browser", "intro.ipynb"]
