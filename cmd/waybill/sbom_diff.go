package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func sbomDiffCommand() *cobra.Command {
	var output string
	cmd := newCommand("sbom_diff", cobra.ExactArgs(2), func(cmd *cobra.Command, args []string) error {
		from, one, err := documentsOf(args[0])
		if err != nil {
			return err
		}
		to, other, err := documentsOf(args[1])
		if err != nil {
			return err
		}
		if one != other {
			return verdict.Refuse(verdict.Usage, args[1], "one document and one release; want two documents or two releases")
		}
		if one {
			return printChanges(cmd.OutOrStdout(), output, spdx.Compare(from[0], to[0]), 0)
		}
		changes, compared, err := spdx.CompareAll(from, to)
		if err != nil {
			return err
		}
		return printChanges(cmd.OutOrStdout(), output, changes, compared)
	})
	cli.AddFormat(cmd, &output, "table or json", "table", "json")
	return cmd
}

// documentsOf reads the document that an argument names, or all those of a release.
func documentsOf(arg string) (list []spdx.Document, one bool, err error) {
	info, err := os.Stat(arg)
	if err == nil && info.IsDir() {
		if _, err := os.Stat(filepath.Join(arg, releasemanifest.Name)); err != nil {
			list, err = documentsIn(arg)
			return list, false, err
		}
		arg = filepath.Join(arg, releasemanifest.Name)
	}
	if filepath.Base(arg) == releasemanifest.Name {
		list, err = documentsListed(arg)
		return list, false, err
	}
	doc, err := parseSPDX(arg)
	return []spdx.Document{doc}, true, err
}

// documentsIn reads every document of a directory, by file name suffix.
func documentsIn(dir string) (list []spdx.Document, err error) {
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || !strings.HasSuffix(path, ".spdx.json") && !strings.HasSuffix(path, ".spdx") {
			return err
		}
		doc, err := parseSPDX(path)
		list = append(list, doc)
		return err
	})
	if err == nil && len(list) == 0 {
		err = verdict.Refuse(verdict.Usage, dir, "the directory has no SPDX document (*.spdx.json, *.spdx) and no %s", releasemanifest.Name)
	}
	return list, err
}

// documentsListed reads the documents that a manifest lists, from its directory.
func documentsListed(path string) (list []spdx.Document, err error) {
	raw, err := store.ReadNamed(path, verify.MaxBundle)
	if err != nil {
		return nil, err
	}
	said, err := verify.Read(raw)
	if err != nil {
		return nil, err
	}
	statement, err := intoto.Parse(said.Payload)
	if err != nil {
		return nil, err
	}
	m, err := manifest.ReadManifest(statement, func(name string) ([]byte, error) {
		return store.ReadNamed(filepath.Join(filepath.Dir(path), filepath.FromSlash(name)), manifest.MaxPage)
	})
	if err != nil {
		return nil, err
	}
	for _, a := range m.Artifacts {
		if a.Class != plan.SBOM {
			continue
		}
		name := filepath.Join(filepath.Dir(path), filepath.FromSlash(a.Name))
		doc, err := parseSPDX(name)
		if err != nil {
			return nil, err
		}
		if sum := digest.Of(digest.SHA256, doc.Raw()); !sum.Equal(a.Digests.SHA256) {
			return nil, &verdict.Error{Finding: verdict.Find(verdict.Tampered, name, "not the document that the manifest lists").
				Differ(a.Digests.SHA256.String(), sum.String())}
		}
		list = append(list, doc)
	}
	if len(list) == 0 {
		return nil, verdict.Refuse(verdict.NoSBOM, path, "the manifest lists no SBOM")
	}
	return list, nil
}

// printChanges prints the changes. Between releases, changed files are counted only:
// their list is long, and JSON has it.
func printChanges(w io.Writer, output string, changes []spdx.Change, compared int) error {
	if output == "json" {
		return render.WriteJSON(w, append([]spdx.Change{}, changes...))
	}
	if compared > 0 {
		fmt.Fprintf(w, "compared %s\n", plural.Of(compared, "document pair"))
	}
	if len(changes) == 0 {
		fmt.Fprintln(w, "no package or file was added, removed or changed")
		return nil
	}
	files := 0
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "KIND\tNAME\tFROM\tTO\tNOTE")
	for _, c := range changes {
		if compared > 0 && c.Kind == "file" {
			files++
			continue
		}
		note := c.Note
		if n := len(c.In); n == 1 {
			note = strings.TrimSpace(note + " in " + c.In[0])
		} else if n > 1 {
			note = strings.TrimSpace(fmt.Sprintf("%s in %d of %d", note, n, compared))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", c.Kind, render.Safe(c.Name), render.Safe(orDash(c.From)), render.Safe(orDash(c.To)), render.Safe(note))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if files > 0 {
		fmt.Fprintf(w, "%s added, removed or changed; --output json lists them\n", plural.Of(files, "file"))
	}
	return nil
}
