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

// metricsFlag names the flag for the file with the metrics of a run.
const metricsFlag = "metrics-file"

// addMetricsFlag adds --metrics-file to a command. [observed] writes the file.
func addMetricsFlag(cmd *cobra.Command) {
	cmd.Flags().String(metricsFlag, "", "file for the metrics of the run in the Prometheus text format, written when it ends, also after a failure")
}

// metricsFile is the file for the metrics; empty for none.
func metricsFile(c *cobra.Command) string {
	if f := c.Flags().Lookup(metricsFlag); f != nil {
		return f.Value.String()
	}
	return ""
}

// metricsCanBeWritten checks before a run that its metrics can be written after it.
func metricsCanBeWritten(c *cobra.Command) error {
	path := metricsFile(c)
	if path == "" {
		return nil
	}
	dir := filepath.Dir(path)
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist), err == nil && !info.IsDir():
		return verdict.Refuse(verdict.Usage, "--"+metricsFlag, "there is no directory %q to write it to; create it first", dir)
	case err != nil:
		return verdict.Wrap(verdict.Usage, "--"+metricsFlag, err)
	}
	return nil
}

// writeMetrics writes the metrics file, whole or not at all.
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
