package main

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
)

// bridge sends the logs of libraries to our logger: the standard log package, klog
// (used for the lists of certificate logs), and OpenTelemetry with its logr.
// Docker's credential files log by logrus, in a function that we never call.
func bridge(ctx context.Context, logger *slog.Logger) {
	slog.SetDefault(logger) // also redirects the standard log package
	klog.SetSlogLogger(logger)
	span.Bridge(ctx, logger, logr.FromSlogHandler(logger.Handler()))
}
