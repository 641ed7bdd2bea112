package main

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/cyclonedx"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func sbomValidateCommand() *cobra.Command {
	output := cli.TableOutput()
	var twin bool
	var profile string
	cmd := newCommand("sbom_validate", cobra.MinimumNArgs(1), func(cmd *cobra.Command, args []string) error {
		if twin && len(args) != 2 {
			return verdict.Refuse(verdict.Usage, "--twin", "want two files, got %d", len(args))
		}
		if all := append([]string{"spdx", "ntia-2021"}, sbomcheck.Profiles()...); !slices.Contains(all, profile) {
			return verdict.Refuse(verdict.Usage, "--profile", "%.40q: want one of %s", profile, strings.Join(all, ", "))
		}
		v, err := validateAll(args, twin, profile)
		return answer(cmd, output, v, err)
	})
	output.AddFlags(cmd)
	cmd.Flags().StringVar(&profile, "profile", "spdx", "spdx for the specification alone, or the elements of ntia-2021, cisa-2026 or bsi-2.1 too")
	cmd.Flags().BoolVar(&twin, "twin", false, "the two files are forms of one document and must say the same")
	return cmd
}

// validateAll checks the files. If one of several cannot be read that is a finding,
// and the others are still checked.
func validateAll(files []string, twin bool, profile string) (*verdict.Verdict, error) {
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
	v := sbom.Validate(names, texts, profile, time.Now())
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

// parseSPDX reads a document that every reader understands in the same way: SPDX,
// or CycloneDX.
func parseSPDX(name string) (spdx.Document, error) {
	text, err := readSPDX(name)
	if err != nil {
		return spdx.Document{}, err
	}
	if head := text[:min(len(text), 1<<20)]; strings.Contains(head, `"bomFormat"`) && !strings.Contains(head, `"spdxVersion"`) {
		doc, err := cyclonedx.Parse([]byte(text))
		return doc, verdict.InFile(name, err)
	}
	doc, report := spdx.Validate(text)
	return doc, verdict.InFile(name, report.Err())
}
