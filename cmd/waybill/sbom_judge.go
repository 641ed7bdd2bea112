package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func sbomValidateCommand() *cobra.Command {
	output := cli.TableOutput()
	var twin bool
	cmd := &cobra.Command{
		Use:   "validate FILE…",
		Short: "List everything that is wrong with SPDX documents",
		Long: `Judge SPDX documents of version 2.2 or 2.3, in JSON or in lines (tag-value), and
list every fault with its place: what the SPDX schema demands, and what a schema
can not say. Identifiers are unique and lead somewhere, nothing contains itself,
checksums are such, the roll-up of the files is right, licence expressions
parse and name licences of the SPDX list, download locations are addresses, names
show as themselves, the time is not yet to come, the NTIA minimum elements are
there, one document describes one thing, and no two have one namespace.

With --twin the two files are forms of one document, and must say the same.

` + exit.Table,
		Example: `  waybill sbom validate lantern.spdx.json
  waybill sbom validate kubernetes-release.spdx --output json
  waybill sbom validate --twin lantern.spdx.json lantern.spdx`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			if twin && len(args) != 2 {
				return verdict.Refuse(verdict.Usage, "--twin", "want two files, got %d", len(args))
			}
			v, err := validateAll(args, twin)
			return answer(cmd, output, v, err)
		},
	}
	output.AddFlags(cmd)
	cmd.Flags().BoolVar(&twin, "twin", false, "the two files are forms of one document and must say the same")
	return cmd
}

// validateAll judges the files that can be read. One of several that can not is
// a finding, and keeps nobody from the others.
func validateAll(files []string, twin bool) (*verdict.Verdict, error) {
	var names, texts []string
	var unread []verdict.Finding
	for _, name := range files {
		text, err := readSPDX(name)
		if err != nil && (len(files) == 1 || twin) {
			return nil, err
		}
		if err != nil {
			f := verdict.FindingOf(name, err)
			f.Subject = name
			unread = append(unread, f)
			continue
		}
		names, texts = append(names, name), append(texts, text)
	}
	v := sbom.Validate(names, texts, time.Now())
	v.Counts.Required += len(unread)
	v.Add(unread...)
	if twin {
		sbom.Twins(v, names, texts)
	}
	return v, nil
}

// readSPDX reads a document without keeping it twice.
func readSPDX(name string) (string, error) {
	f, err := store.OpenNamed(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", verdict.Wrap(verdict.PlaceDown, name, err)
	}
	return spdx.ReadText(f, info.Size())
}

// parseSPDX reads a document that must not be open to misreading.
func parseSPDX(name string) (spdx.Document, error) {
	text, err := readSPDX(name)
	if err != nil {
		return spdx.Document{}, err
	}
	doc, report := spdx.Validate(text)
	if doc.IsZero() {
		f := verdict.Find(report.Faults[0].Code(), name, "it can not be read without doubt: %v", report.Faults[0])
		f.Fix = report.Faults[0].Fix()
		return doc, &verdict.Error{Finding: f}
	}
	return doc, nil
}
