package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// metricsFlag names the flag that says where the metrics of a run are written.
const metricsFlag = "metrics-file"

// addMetricsFlag adds --metrics-file to a command that runs and ends. What it
// says is obeyed by [observed].
func addMetricsFlag(cmd *cobra.Command) {
	cmd.Flags().String(metricsFlag, "", "file to write metrics of the run to when it has ended, however it did, in the text format of Prometheus")
}

// metricsFile is where the metrics go; empty for nowhere.
func metricsFile(c *cobra.Command) string {
	if f := c.Flags().Lookup(metricsFlag); f != nil {
		return f.Value.String()
	}
	return ""
}

// metricsCanBeWritten says before a run what would keep its metrics from being
// written after it.
func metricsCanBeWritten(c *cobra.Command) error {
	path := metricsFile(c)
	if path == "" {
		return nil
	}
	dir := filepath.Dir(path)
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist), err == nil && !info.IsDir():
		return verdict.Refuse(verdict.Usage, "--"+metricsFlag, "there is no directory %q to write it to", dir)
	case err != nil:
		return verdict.Wrap(verdict.Usage, "--"+metricsFlag, err)
	}
	return nil
}

// writeMetrics writes them, whole or not at all.
func writeMetrics(c *cobra.Command, t *span.Tally, r span.Run) error {
	path := metricsFile(c)
	if path == "" {
		return nil
	}
	var text bytes.Buffer
	if err := t.WriteMetrics(&text, r); err != nil {
		return err
	}
	return cli.WriteFile(path, text.Bytes())
}
