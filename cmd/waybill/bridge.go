package main

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
)

// bridge lets the libraries that are linked and have a log of their own speak
// through ours: the standard log package, klog (the lists of certificate logs),
// and OpenTelemetry with its logr. Docker's credential files warn by logrus in
// a function that nothing here calls.
func bridge(ctx context.Context, logger *slog.Logger) {
	slog.SetDefault(logger) // the standard log package's lines, too
	klog.SetSlogLogger(logger)
	span.Bridge(ctx, logger, logr.FromSlogHandler(logger.Handler()))
}
