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
		Short: "Check SPDX documents, and list every fault",
		Long: `Check SPDX documents of version 2.2 or 2.3, JSON or tag-value, and list every fault
with its location: violations of the SPDX schema, and of rules that a schema cannot
express. Identifiers are unique and resolve; nothing contains itself; checksums are
well-formed; the package verification code matches the files; licence expressions
parse and name licences of the SPDX list; download locations are addresses; names
contain no invisible characters; the time is not in the future; the NTIA minimum
elements are present; a document describes one thing; and no two documents share a
namespace.

With --twin the two files are forms of one document, and must say the same.

` + exit.Table("no document has a fault"),
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

// validateAll checks the files. If one of several cannot be read that is a finding,
// and the others are still checked.
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

// readSPDX reads a document without holding it in memory twice.
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

// parseSPDX reads a document that every reader understands in the same way.
func parseSPDX(name string) (spdx.Document, error) {
	text, err := readSPDX(name)
	if err != nil {
		return spdx.Document{}, err
	}
	doc, report := spdx.Validate(text)
	if doc.IsZero() {
		f := verdict.Find(report.Faults[0].Code(), name, "ambiguous or malformed document: %v", report.Faults[0])
		f.Fix = report.Faults[0].Fix()
		return doc, &verdict.Error{Finding: f}
	}
	return doc, nil
}
