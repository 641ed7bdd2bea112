package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// references are what the arguments of a question to the gate are.
type references struct {
	version bool // one release, which is asked about alone
	images  []string
	files   []string
	plans   []promotionplan.Plan // saved ones, and the one that the manifests make
}

var (
	// whereLine is at the left of every promoter's manifest, and of no other YAML
	// that there is a reason to judge.
	whereLine = regexp.MustCompile(`(?m)^(registries|filestores):`)
	// planLine is in every saved plan, of this form or another, at its beginning;
	// in one that was changed, wherever that put it.
	planLine = regexp.MustCompile(`^\s*\{(?s:.*)"schema"\s*:\s*"waybill/promotion-plan/`)
)

// planHead is how much of a file is looked at to see whether it is a plan.
const planHead = 1 << 20

// sortReferences tells the arguments apart by what they are. What could be two
// things is refused: nobody guesses what was meant.
func sortReferences(args []string) (references, error) {
	var all references
	var manifests []string
	for _, arg := range args {
		kind, err := kindOf(arg)
		if err != nil {
			return references{}, err
		}
		switch kind {
		case aVersion:
			if all.version = true; len(args) > 1 {
				return references{}, verdict.Refuse(verdict.Usage, arg, "a release is asked about alone").Advise("ask about the version and about the rest in two runs")
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
	plan, err := planManifests(manifests)
	all.plans = append(all.plans, plan)
	return all, err
}

// kind is what an argument is.
type kind int

const (
	aVersion kind = iota + 1
	anImage
	aFile
	aManifest
	aPlan
)

// kindOf looks at an argument, and at the file of that name if there is one.
func kindOf(arg string) (kind, error) {
	_, notVersion := version.Parse(arg)
	_, notImage := cli.Image(arg, cli.Transport(true))
	info, err := os.Stat(arg)
	there := err == nil
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist) && notVersion != nil && notImage != nil:
		return 0, verdict.Wrap(verdict.PlaceDown, arg, err)
	case there && (notVersion == nil || notImage == nil):
		return 0, verdict.Refuse(verdict.Usage, arg, "it is the name of a release or an image, and of a file that is here").
			Advise("write ./" + arg + " for the file, or ask from another directory")
	case notVersion == nil:
		return aVersion, nil
	case notImage == nil:
		return anImage, nil
	case !there:
		return 0, verdict.Refuse(verdict.Usage, arg, "it is no version, no image, and there is no such file").
			Advise("want v1.2.3, HOST/PATH:TAG, HOST/PATH@sha256:…, a file, or a directory of promoter's manifests")
	case info.IsDir():
		return aManifest, nil
	case !info.Mode().IsRegular():
		return aFile, nil // what is wrong with it is said when it is judged
	}
	return kindOfFile(arg)
}

// kindOfFile tells a plan, a promoter's manifest and evidence from whatever else
// is to be judged, by how it begins.
func kindOfFile(path string) (kind, error) {
	if strings.HasSuffix(path, gate.BundleSuffix) {
		return 0, verdict.Refuse(verdict.Usage, path, "it is evidence").Advise("name the file that it is about; what lies beside a file is found")
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
	if planLine.Match(head) {
		return aPlan, nil
	}
	if ext := filepath.Ext(path); ext != ".yaml" && ext != ".yml" {
		return aFile, nil
	}
	raw, err := store.ReadNamed(path, maxPromoterManifest)
	if err != nil {
		return 0, err
	}
	if whereLine.Match(raw) {
		return aManifest, nil
	}
	return aFile, nil
}
