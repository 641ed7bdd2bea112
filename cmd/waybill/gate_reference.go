package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// references are the arguments of gate check, by kind.
type references struct {
	version bool // a release, which must be the only argument
	images  []string
	files   []string
	plans   []promotionplan.Plan // saved plans, and the plan made of all manifests
}

var (
	// whereLine begins a line of every promoter's manifest, and of no other YAML
	// file that one would judge.
	whereLine = pattern.Lazy(`(?m)^(registries|filestores):`)
	// planLine is in every saved plan, of any schema version; not always at the
	// beginning, because a plan may have been edited.
	planLine = pattern.Lazy(`^\s*\{(?s:.*)"schema"\s*:\s*"waybill/promotion-plan/`)
)

// planHead is how much of a file is read to see whether it is a plan.
const planHead = 1 << 20

// sortReferences sorts the arguments by kind. An ambiguous argument is refused, not
// guessed.
func sortReferences(args []string) (all references, err error) {
	var manifests []string
	for _, arg := range args {
		kind, err := kindOf(arg)
		if err != nil {
			return references{}, err
		}
		switch kind {
		case aVersion:
			if all.version = true; len(args) > 1 {
				return references{}, verdict.Refuse(verdict.Usage, arg, "a release must be the only argument").Advise("run the command once for the release, and once for the other arguments")
			}
		case anImage:
			all.images = append(all.images, arg)
		case aFile:
			all.files = append(all.files, arg)
		case aManifest:
			manifests = append(manifests, arg)
		case aPlan:
			raw, err := store.ReadNamed(arg, maxPlanFile)
			if err != nil {
				return references{}, err
			}
			plan, err := promotionplan.Parse(raw)
			if err != nil {
				return references{}, err
			}
			all.plans = append(all.plans, plan)
		}
	}
	if len(manifests) == 0 {
		return all, nil
	}
	plan, _, err := planManifests(manifests, false)
	all.plans = append(all.plans, plan)
	return all, err
}

type kind int

const (
	aVersion kind = iota + 1
	anImage
	aFile
	aManifest
	aPlan
)

// kindOf finds the kind of an argument, by its form and by the file of that name.
func kindOf(arg string) (kind, error) {
	_, notVersion := version.Parse(arg)
	_, notImage := cli.Image(arg, cli.Transport(true))
	info, err := os.Stat(arg)
	there := err == nil
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist) && notVersion != nil && notImage != nil:
		return 0, verdict.Wrap(verdict.PlaceDown, arg, err)
	case there && (notVersion == nil || notImage == nil):
		return 0, verdict.Refuse(verdict.Usage, arg, "ambiguous: the name of a release or an image, and of an existing file").
			Advise("write ./" + arg + " for the file, or run the command in another directory")
	case notVersion == nil:
		return aVersion, nil
	case notImage == nil:
		return anImage, nil
	case !there:
		return 0, verdict.Refuse(verdict.Usage, arg, "no version, no image reference, and no such file").
			Advise("want v1.2.3, HOST/PATH:TAG, HOST/PATH@sha256:…, a file, or a directory of promoter's manifests")
	case info.IsDir():
		return aManifest, nil
	case !info.Mode().IsRegular():
		return aFile, nil // judging it reports what is wrong
	}
	return kindOfFile(arg)
}

// kindOfFile distinguishes a plan, a promoter's manifest and evidence from other
// files, by their content.
func kindOfFile(path string) (kind, error) {
	if strings.HasSuffix(path, gate.BundleSuffix) {
		return 0, verdict.Refuse(verdict.Usage, path, "the file is a bundle, which is evidence about another file").Advise("name that other file: its bundle is found beside it")
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, verdict.Wrap(verdict.PlaceDown, path, err)
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, planHead))
	if err != nil {
		return 0, verdict.Wrap(verdict.PlaceDown, path, err)
	}
	if planLine().Match(head) {
		return aPlan, nil
	}
	if ext := filepath.Ext(path); ext != ".yaml" && ext != ".yml" {
		return aFile, nil
	}
	raw, err := store.ReadNamed(path, maxPromoterManifest)
	if err != nil {
		return 0, err
	}
	if whereLine().Match(raw) {
		return aManifest, nil
	}
	return aFile, nil
}
