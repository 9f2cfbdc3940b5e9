# Tollgate as a container that does not run as root and writes only to /var/lib/tollgate.
#   docker build -t tollgate .
#   docker run -p 8080:8080 -v tollgate:/var/lib/tollgate --read-only tollgate
FROM node:24-slim AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
# npm ci runs this script ("prepare"); it does nothing while the sources are not copied yet.
COPY scripts/check-runtime.mjs scripts/build*.ts scripts/hash-sources.ts ./scripts/
RUN npm ci --no-audit --no-fund
COPY . .
RUN npm run build && node scripts/write-sbom.ts && npm ci --omit=dev --no-audit --no-fund && rm -rf node_modules/.cache

# The same Debian as above, but without npm, yarn and their caches, so that the image stays under 200 MB.
FROM gcr.io/distroless/nodejs24-debian12:nonroot
WORKDIR /app
COPY --from=build /build/package.json ./
COPY --from=build /build/bin ./bin
COPY --from=build /build/dist ./dist
COPY --from=build /build/node_modules ./node_modules
COPY --from=build /build/README.md /build/LICENSE /build/tollgate.example.yaml ./
COPY --from=build /build/docs ./docs
# On the PATH: docker exec CONTAINER tollgate status
COPY --from=build --chmod=0755 /build/deploy/docker/tollgate /usr/local/bin/tollgate
# A new volume gets the owner of this folder: the user that the image runs as.
COPY --from=build --chown=nonroot:nonroot /build/deploy/docker/data /var/lib/tollgate
ENV NODE_ENV=production \
    TOLLGATE_HOST=0.0.0.0 \
    TOLLGATE_PORT=8080 \
    TOLLGATE_RPC_HOST=127.0.0.1 \
    TOLLGATE_RPC_PORT=9090 \
    TOLLGATE_DATA_DIR=/var/lib/tollgate \
    TOLLGATE_BOOTSTRAP_FILE=/var/lib/tollgate/first-keys \
    NODE_COMPILE_CACHE=/tmp/tollgate-cache
VOLUME /var/lib/tollgate
EXPOSE 8080 9090
USER nonroot
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
  CMD ["/nodejs/bin/node", "-e", "fetch('http://127.0.0.1:' + process.env.TOLLGATE_PORT + '/readyz').then(r => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["/nodejs/bin/node", "--max-old-space-size=1024", "bin/tollgate.js"]
CMD ["serve"]
