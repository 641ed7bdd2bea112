package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// What a person does not have to type in the directory of release.yaml.
const (
	profileName = "profile.yaml"
	stateName   = ".waybill"
)

// nearest is the directory with a file: the working directory, or else the nearest
// one above it, up to the top of the repository; "" if there is none. Above the working
// directory, a file of another owner does not count: anyone can make a repository in
// /tmp, with a profile that names services to send tokens to.
func nearest(name string) string {
	here, err := os.Getwd()
	if err == nil {
		here, err = filepath.EvalSymlinks(here) // as .. does
	}
	own, err2 := os.Stat(".")
	if errors.Join(err, err2) != nil {
		return ""
	}
	top := git.Above(here)
	for dir := "."; ; dir = filepath.Join(dir, "..") {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() && (dir == "." || sameOwner(info, own)) {
			return dir
		}
		if top == "" || filepath.Join(here, dir) == top {
			return ""
		}
	}
}

// sourceHere is the repository of the working directory, if release.yaml is at its
// top; else empty.
func sourceHere() string {
	dir := nearest(plan.ConfigName)
	if dir == "" {
		return ""
	}
	if _, err := os.Lstat(filepath.Join(dir, ".git")); err != nil {
		return ""
	}
	return dir
}

// stateDir is the state directory of a release: the one that was given, else
// .waybill/VERSION beside the profile, or .waybill if the release is there. Without
// a version it is the only release below .waybill, or .waybill.
func stateDir(given string, v version.Version) string {
	dir := filepath.Join(cmp.Or(nearest(profileName), "."), stateName)
	switch {
	case given != "":
		return given
	case v.IsZero():
		if only, err := filepath.Glob(filepath.Join(dir, "v*")); err == nil && len(only) == 1 && !workspace.Is(dir) {
			return only[0]
		}
		return dir
	case workspace.Is(dir):
		if w, err := workspace.Open(dir); err != nil || w.Identity().Version == v {
			return dir
		}
	}
	return filepath.Join(dir, v.String())
}

func addStateFlag(cmd *cobra.Command, to *string, what string) {
	cmd.Flags().StringVar(to, "state", "", what+` (default ".waybill/VERSION")`)
}

// settle fills in what was not given on the command line.
func (o *project) settle(versions []version.Version) {
	if dir := nearest(profileName); o.profile == "" && dir != "" {
		o.profile = filepath.Join(dir, profileName)
	}
	if o.buildsFrom && o.source == "" {
		o.source = sourceHere()
	}
	switch {
	case len(versions) == 1:
		o.state = stateDir(o.state, versions[0])
	case o.state == "": // each version gets its own below
		o.state = filepath.Join(cmp.Or(nearest(profileName), "."), stateName)
	}
}

// tokens are the sources of identity tokens: those of the command line, or, if it
// names neither tokens nor keys, those of the profile.
func (o *project) tokens(cmd *cobra.Command, rt http.RoundTripper, p profile.Profile) (map[string]token.Source, error) {
	as := o.as
	if len(as.names) > 0 && len(as.files)+len(as.sources)+len(o.keys.given) == 0 {
		for _, name := range slices.Sorted(maps.Keys(p.Identities)) {
			if !slices.Contains(pipeline.TokenNames(), name) {
				return nil, verdict.Refuse(verdict.ConfigParse, p.Path, "identities: %q is no identity of a release: want one of %s", name, strings.Join(pipeline.TokenNames(), ", "))
			}
			if slices.Contains(as.names, name) {
				as.sources = append(as.sources, fmt.Sprintf("%s=%s", name, p.Identities[name]))
			}
		}
	}
	return as.parse(rt, loginOf(p), cmd.ErrOrStderr())
}
