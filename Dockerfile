# A model in service. The model is mounted, never copied in, and only read:
#   docker build -t laconic .
#   docker run --read-only --tmpfs /tmp --stop-timeout 12 -p 8000:8000 -v "$PWD/model:/model:ro" laconic
# A tag names a version; a digest (python@sha256:...) names exactly these bytes: `docker buildx imagetools inspect` shows it.
FROM python:3.11.14-slim-bookworm

# Without extras: a packed model is served without torch, which would be most of the image.
COPY pyproject.toml README.md LICENSE deploy/requirements.txt /src/
COPY src /src/src
RUN pip install --no-cache-dir -r /src/requirements.txt && pip install --no-cache-dir --no-deps /src && rm -rf /src

# Kernels are compiled when they are first needed and kept here; mount a volume to keep them between containers.
RUN useradd --system --uid 10001 --create-home laconic && install --directory --owner=laconic /var/cache/laconic
ENV NUMBA_CACHE_DIR=/var/cache/laconic PYTHONUNBUFFERED=1
VOLUME /var/cache/laconic
USER laconic
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=2s --start-period=120s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=1)"]
ENTRYPOINT ["laconic", "serve", "/model", "--host", "0.0.0.0"]
