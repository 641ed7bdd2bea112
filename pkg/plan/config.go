// Package plan reads release.yaml and expands it into the plan of a release:
// a value that lists every step and every artifact to come, and nothing else.
//
// The producer's pipeline builds what the plan says; the seal lists what the
// plan says; a verifier expands the published release.yaml itself and compares.
// Nothing is implicit: signatures, SBOMs, provenance and checksum files are
// artifacts of the plan like any other.
//
//	config, err := plan.ParseConfig(releaseYAML)
//	p, err := config.Expand(v)
//	for _, a := range p.Artifacts { fmt.Println(a.Name, a.Class) }
//
// It owns the file format and its expansion. It runs nothing, resolves no ref
// and opens no file.
package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/strictyaml"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// File names of the configuration, in the source and in the release.
const (
	ConfigName = "release.yaml"
	LockName   = "release.lock.yaml"
)

// Config is a parsed release.yaml.
type Config struct {
	APIVersion string              `yaml:"apiVersion"`
	Kind       string              `yaml:"kind"`
	Name       string              `yaml:"name"`
	Source     Source              `yaml:"source"`
	Lock       string              `yaml:"lock"`
	Lists      map[string][]string `yaml:"lists"`
	Steps      []StepConfig        `yaml:"steps"`
	Places     Places              `yaml:"places"`
}

// Source names the canonical repository.
type Source struct {
	Repository string `yaml:"repository"`
}

// Places are the canonical addresses of the release; "{version}" stands for
// the version.
type Places struct {
	Files  string `yaml:"files"`
	Images string `yaml:"images"`
}

// StepConfig is one step before expansion: a command, an archive or an image.
type StepConfig struct {
	Name    string            `yaml:"name"`
	Each    EachConfig        `yaml:"each"`
	Run     []string          `yaml:"run"`
	Env     map[string]string `yaml:"env"`
	Archive *ArchiveConfig    `yaml:"archive"`
	Image   *ImageConfig      `yaml:"image"`
	Outputs []OutputConfig    `yaml:"outputs"`
}

// EachConfig repeats a step over a list.
type EachConfig struct {
	Platform string `yaml:"platform"`
}

// ArchiveConfig packs earlier outputs and files of the source.
type ArchiveConfig struct {
	Format string   `yaml:"format"`
	Root   string   `yaml:"root"`
	Add    []string `yaml:"add"`
	Take   []string `yaml:"take"`
}

// ImageConfig assembles a multi-platform image from a base and earlier outputs.
type ImageConfig struct {
	Base       string            `yaml:"base"`
	Platforms  string            `yaml:"platforms"`
	Files      map[string]string `yaml:"files"`
	Entrypoint []string          `yaml:"entrypoint"`
}

// OutputConfig declares one output by template.
type OutputConfig struct {
	Class string `yaml:"class"`
	Name  string `yaml:"name"`
}

// Lock is a parsed release.lock.yaml: what names in release.yaml stand for,
// by digest.
type Lock struct {
	APIVersion string              `yaml:"apiVersion"`
	Kind       string              `yaml:"kind"`
	Bases      map[string]BaseLock `yaml:"bases"`
}

// BaseLock pins one base image.
type BaseLock struct {
	Image  string        `yaml:"image"`
	Digest digest.Digest `yaml:"digest"`
}

// ParseConfig reads release.yaml strictly and checks everything that can be
// checked without a version.
func ParseConfig(raw []byte) (Config, error) {
	var c Config
	if err := strictyaml.Unmarshal(raw, &c); err != nil {
		return Config{}, verdict.Wrap(verdict.ConfigParse, ConfigName, err)
	}
	for _, check := range []func(Config) error{checkHead, checkPlaces, checkLists, checkSteps} {
		if err := check(c); err != nil {
			return Config{}, verdict.Wrap(verdict.ConfigParse, ConfigName, err)
		}
	}
	return c, nil
}

// ParseLock reads release.lock.yaml strictly.
func ParseLock(raw []byte) (Lock, error) {
	var l Lock
	if err := strictyaml.Unmarshal(raw, &l); err != nil {
		return Lock{}, verdict.Wrap(verdict.ConfigParse, LockName, err)
	}
	if l.APIVersion != "waybill/v1" || l.Kind != "Lock" {
		return Lock{}, verdict.Refuse(verdict.ConfigParse, LockName, "want apiVersion waybill/v1 and kind Lock")
	}
	for name, b := range l.Bases {
		if b.Image == "" || b.Digest.Algorithm() != digest.SHA256 {
			return Lock{}, verdict.Refuse(verdict.ConfigParse, LockName, "base %q needs an image and a sha256 digest", name)
		}
	}
	return l, nil
}

func checkHead(c Config) error {
	switch {
	case c.APIVersion != "waybill/v1" || c.Kind != "Release":
		return fmt.Errorf("want apiVersion waybill/v1 and kind Release")
	case !isName(c.Name):
		return fmt.Errorf("name %q: want lower-case letters, digits and dashes", c.Name)
	case c.Source.Repository == "":
		return fmt.Errorf("source.repository: empty")
	case c.Lock != "" && c.Lock != LockName:
		return fmt.Errorf("lock: want %q", LockName)
	}
	return nil
}

func checkPlaces(c Config) error {
	if c.Places.Files == "" {
		return fmt.Errorf("places.files: empty; the manifest itself lives there")
	}
	if !strings.HasSuffix(c.Places.Files, "/") || !strings.Contains(c.Places.Files, "{version}") {
		return fmt.Errorf("places.files %q: want an address with {version} that ends in a slash", c.Places.Files)
	}
	hasImages := slices.ContainsFunc(c.Steps, func(s StepConfig) bool { return s.Image != nil })
	if hasImages && c.Places.Images == "" {
		return fmt.Errorf("places.images: empty, but a step makes an image")
	}
	return nil
}

func checkLists(c Config) error {
	for name, list := range c.Lists {
		if len(list) == 0 {
			return fmt.Errorf("lists.%s: empty", name)
		}
		seen := map[string]bool{}
		for _, item := range list {
			if seen[item] {
				return fmt.Errorf("lists.%s: %q twice", name, item)
			}
			seen[item] = true
		}
	}
	return nil
}

func checkSteps(c Config) error {
	if len(c.Steps) == 0 {
		return fmt.Errorf("steps: empty")
	}
	seen := map[string]bool{}
	for _, s := range c.Steps {
		if !isName(s.Name) || seen[s.Name] {
			return fmt.Errorf("step %q: want a name of lower-case letters, digits and dashes, used once", s.Name)
		}
		seen[s.Name] = true
		if err := checkStep(c, s); err != nil {
			return fmt.Errorf("step %q: %w", s.Name, err)
		}
	}
	return nil
}

func checkStep(c Config, s StepConfig) error {
	kinds := 0
	for _, is := range []bool{len(s.Run) > 0, s.Archive != nil, s.Image != nil} {
		if is {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return fmt.Errorf("want exactly one of run, archive, image")
	case len(s.Outputs) == 0:
		return fmt.Errorf("outputs: empty; a step that makes nothing proves nothing")
	case len(s.Run) == 0 && len(s.Env) > 0:
		return fmt.Errorf("env: only a step that runs a command has one")
	case s.Each.Platform != "" && c.Lists[s.Each.Platform] == nil:
		return fmt.Errorf("each.platform: no list %q", s.Each.Platform)
	case s.Archive != nil:
		return checkArchive(s)
	case s.Image != nil:
		return checkImage(c, s)
	}
	return checkOutputs(s, "binary", "archive", "file")
}

func checkArchive(s StepConfig) error {
	if s.Archive.Format != "tar.gz" {
		return fmt.Errorf("archive.format %q: want tar.gz", s.Archive.Format)
	}
	if len(s.Archive.Take) == 0 || !isName(s.Archive.Root) {
		return fmt.Errorf("archive: want a root directory and outputs to take")
	}
	if len(s.Outputs) != 1 {
		return fmt.Errorf("outputs: an archive step makes exactly one")
	}
	return checkOutputs(s, "archive")
}

func checkImage(c Config, s StepConfig) error {
	switch {
	case c.Lists[s.Image.Platforms] == nil:
		return fmt.Errorf("image.platforms: no list %q", s.Image.Platforms)
	case s.Each.Platform != "":
		return fmt.Errorf("each: an image is one step for all its platforms")
	case len(s.Image.Files) == 0 || len(s.Image.Entrypoint) == 0:
		return fmt.Errorf("image: want files and an entrypoint")
	case s.Image.Base == "" || c.Lock == "":
		return fmt.Errorf("image.base: want a name that %s pins", LockName)
	case len(s.Outputs) != 1:
		return fmt.Errorf("outputs: an image step makes exactly one")
	}
	return checkOutputs(s, "image")
}

func checkOutputs(s StepConfig, classes ...string) error {
	for _, o := range s.Outputs {
		if !slices.Contains(classes, o.Class) {
			return fmt.Errorf("output %q: class %q, want one of %s", o.Name, o.Class, strings.Join(classes, ", "))
		}
	}
	return nil
}

// isName is the grammar of names that end up in file names, tags and URIs.
func isName(s string) bool {
	if s == "" || len(s) > 64 || s[0] == '-' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
