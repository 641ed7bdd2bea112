// Package start prepares a project for its first release: [Prepare] finds out
// what there is, and returns the files that the project lacks: release.yaml,
// profile.yaml, policy.yaml and lines of .gitignore, each with comments that
// explain its keys. [Set.Write] writes them, and never replaces a file unless
// asked to.
//
//	set, err := start.Prepare(ctx, start.Request{Dir: "."})
//	fmt.Print(set.Diff())
//	err = set.Write(false)
//
// The files name what the git remote, a lab or GitHub offer. What is not known
// gets a placeholder that nothing accepts, and a note.
//
// Other projects should not import this package: it changes without notice.
package start

import (
	"context"
	_ "embed" // of the templates
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/release/plan/draft"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Request says for what to prepare a project.
type Request struct {
	Dir string
	// Lab is the directory of a running lab; GitHub is OWNER/REPO, whose
	// workflows release. At most one of them is given.
	Lab, GitHub string
	// Place is the address where users find the files; "" derives it.
	Place string
	// Convert takes over .goreleaser.yaml.
	Convert bool
	// Workflows returns the workflows for a repository on GitHub, by path.
	Workflows func(repository string) map[string]string
}

//go:embed profile.yaml.tmpl
var profileShape string

//go:embed policy.yaml.tmpl
var policyShape string

// signingConfig names Sigstore's public services.
//
//go:embed signing_config.json
var signingConfig string

// ownerRepo matches OWNER/REPO of GitHub.
var ownerRepo = pattern.Lazy(`\A[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+\z`)

// who is one identity in the policy.
type who struct{ Issuer, Subject, Pattern, Repository, Note string }

type builder struct {
	ID     string
	Level  int
	Why    string
	Signer who
}

// tokenFrom is where profile.yaml gets a token.
type tokenFrom struct{ Name, From string }

// services are who signs, with what, and the places.
type services struct {
	Lab, GitHub                 bool
	TrustedRoot, SigningConfig  string
	Tokens                      []tokenFrom
	Staging, Public             string
	ImagesStaging, ImagesPublic string
	Release                     who
	Builders                    []builder
	ignored, unknown            []string // lines of .gitignore, and notes
}

// world is what the templates are filled with.
type world struct {
	draft.Project
	services
	Source string // as the policy names it
	notes  []string
}

// Prepare finds out what the files of a project have to say.
func Prepare(ctx context.Context, r Request) (Set, error) {
	if r.Lab != "" && r.GitHub != "" {
		return Set{}, verdict.Refuse(verdict.Usage, "--lab and --github", "the services of one of them sign").Advise("give one of the two")
	}
	if r.GitHub != "" && !ownerRepo().MatchString(r.GitHub) {
		return Set{}, verdict.Refuse(verdict.Usage, "--github", "%q is not OWNER/REPO", r.GitHub).Advise("name the repository as in --github example/hello")
	}
	if r.Place != "" && !strings.HasSuffix(r.Place, "{version}/") {
		return Set{}, verdict.Refuse(verdict.Usage, "--place", "%q must end in {version}/", r.Place).Advise("name the place as in --place gs://BUCKET/hello/{version}/")
	}
	root, err := os.OpenRoot(r.Dir) // a link of the source may lead to a secret
	if err != nil {
		return Set{}, verdict.Wrap(verdict.Usage, "--dir", err).Advise("name the top of a Go module, which has go.mod")
	}
	defer root.Close()
	tree := root.FS()
	p, err := draft.Discover(tree)
	if err != nil {
		return Set{}, err
	}
	w := &world{Project: p}
	set := Set{Dir: r.Dir}
	if r.Convert {
		left, err := w.Convert(tree)
		if err != nil {
			return Set{}, err
		}
		for _, l := range left {
			w.note("not carried over: %s: %s", l.Key, l.Why)
		}
	}
	if err := w.findSource(ctx, r); err != nil {
		return Set{}, err
	}
	w.Registry = strings.TrimSuffix(w.Registry, "/")
	if w.services, err = publicServices(w.Project, r), nil; r.Lab != "" {
		w.services, err = labServices(w.Project, r)
	}
	if err != nil {
		return Set{}, err
	}
	if err := w.files(r, &set); err != nil {
		return Set{}, err
	}
	set.Notes, set.Bases = slices.Concat(w.notes, w.unknown), w.Bases()
	return set, nil
}

func (w *world) note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

// findSource derives addresses from --github, or from the remote of the clone.
func (w *world) findSource(ctx context.Context, r Request) error {
	address := ""
	if _, err := os.Lstat(filepath.Join(r.Dir, ".git")); errors.Is(err, fs.ErrNotExist) {
		w.note("%s is not the top of a git repository, and a release is built from a commit: run git init", r.Dir)
	} else if address, err = git.Origin(ctx, r.Dir); err != nil {
		return err
	}
	if r.GitHub != "" {
		address = "git+https://github.com/" + r.GitHub
	}
	switch w.Source = address; {
	case address == "" && r.Lab != "":
		abs, err := filepath.Abs(r.Dir)
		if err != nil {
			return err
		}
		w.Source = "git+file://" + filepath.ToSlash(abs)
		w.note("the clone has no remote that others reach, so the policy names this directory: after git remote add origin ADDRESS, run init --force")
	case address == "":
		w.Source = "git+" + w.Repository
		w.note("the clone has no remote that others reach; the source is guessed: %s", w.Repository)
	default:
		w.Repository = strings.TrimPrefix(address, "git+")
	}
	own := "github://" + onGitHub(w.Repository) + "/{version}/"
	switch converted := strings.HasPrefix(w.Place, "github://"); {
	case r.Place != "":
		w.Place = r.Place
	case onGitHub(w.Repository) != "" && (!converted || r.GitHub != ""):
		w.Place = own
	case converted && w.Place != own:
		w.note("the files are published at %s, the repository that .goreleaser.yaml names: give --place if it is not yours", w.Place)
	case strings.Contains(w.Place, ".test/"):
		host, _ := url.Parse(w.Repository)
		w.note("where users find the files is not known for %s: replace %s in release.yaml and profile.yaml, or give --place", host.Hostname(), w.Place)
	}
	return nil
}

// labPage is the part of lab.json that is used here.
type labPage struct {
	Dir, Issuer, Bucket, Registry, TrustedRoot, SigningConfig string
	Identities                                                map[string]struct{ Issuer, Subject string }
}

// labServices are the services, places and identities of a running lab.
func labServices(p draft.Project, r Request) (services, error) {
	raw, err := os.ReadFile(filepath.Join(r.Lab, "lab.json"))
	if err != nil {
		return services{}, verdict.Refuse(verdict.Usage, r.Lab, "no lab runs in this directory: %v", err).Advise("start one: waybill-lab up --dir " + r.Lab)
	}
	var page labPage
	if err := json.Unmarshal(raw, &page); err != nil || page.Bucket == "" || page.Identities["release"].Subject == "" {
		return services{}, verdict.Refuse(verdict.ConfigParse, filepath.Join(r.Lab, "lab.json"), "not the page of a lab").Advise("start one in an empty directory: waybill-lab up --dir DIR")
	}
	dir, ignored := inside(r.Dir, page.Dir)
	as := func(role string) who {
		return who{Issuer: page.Identities[role].Issuer, Subject: page.Identities[role].Subject}
	}
	files, images := "gs+"+page.Bucket+"/%s/"+p.Name+"/{version}/", page.Registry+"/%s/"+p.Name
	s := services{
		Lab: true, TrustedRoot: filepath.Join(dir, filepath.Base(page.TrustedRoot)), SigningConfig: filepath.Join(dir, filepath.Base(page.SigningConfig)),
		Staging: fmt.Sprintf(files, "staging"), Public: fmt.Sprintf(files, "release"),
		ImagesStaging: fmt.Sprintf(images, "staging"), ImagesPublic: fmt.Sprintf(images, "release"),
		Release: as("release"),
		Builders: []builder{
			{"isolated", 2, "each step saw nothing but its inputs", as("builder")},
			{"unisolated", 1, "where the machine cannot isolate steps", as("builder-unisolated")},
		},
		ignored: ignored,
		Tokens: slice.Map([]string{"builder", "builder-unisolated", "release"}, func(name string) tokenFrom {
			return tokenFrom{name, "file:" + filepath.Join(dir, "tokens", name)}
		}),
	}
	return s, nil
}

// inside is a directory as seen from the project, if it is inside of it, and
// the line by which git then ignores it.
func inside(project, dir string) (string, []string) {
	abs, err := filepath.Abs(project)
	if err != nil {
		return dir, nil
	}
	below, err := filepath.Rel(abs, dir)
	if err != nil || !filepath.IsLocal(below) || below == "." {
		return dir, nil
	}
	return below, []string{"/" + filepath.ToSlash(below) + "/"}
}

// publicServices are Sigstore's public services, and the identities of GitHub
// Actions if the source is there.
func publicServices(p draft.Project, r Request) services {
	s := services{
		SigningConfig: "signing_config.json", Staging: "staging/{version}/", Public: p.Place, ignored: []string{"/staging/"},
		ImagesStaging: p.Registry + "/staging", ImagesPublic: p.Registry,
	}
	isolated := builder{ID: "isolated", Level: 2, Why: "each step saw nothing but its inputs"}
	if at := onGitHub(p.Repository); at != "" {
		workflow := func(file string) who {
			pattern := regexp.QuoteMeta("https://github.com/"+at+"/.github/workflows/"+file) + `@refs/tags/v[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)\.[0-9]+)?`
			return who{Issuer: "https://token.actions.githubusercontent.com", Pattern: pattern, Repository: p.Repository}
		}
		s.GitHub, s.Release, isolated.Signer = true, workflow("release.yml"), workflow("build.yml")
		if r.GitHub == "" {
			s.unknown = append(s.unknown, fmt.Sprintf("the policy names the workflows build.yml and release.yml of %s; write them with --github %s, or try it first with --lab DIR", at, at))
		}
	} else {
		const change = "replace it: the account that signs"
		s.Release = who{Issuer: "https://accounts.example.test", Subject: "release@example.test", Note: change}
		isolated.Signer = who{Issuer: "https://accounts.example.test", Subject: "builder@example.test", Note: change}
		s.unknown = append(s.unknown, "who signs is not known for this host: replace the identities in policy.yaml, or try it first with --lab DIR")
	}
	s.Builders = []builder{isolated}
	return s
}

// onGitHub is OWNER/REPO of a repository on GitHub, else empty.
func onGitHub(repository string) string {
	if at, is := strings.CutPrefix(repository, "https://github.com/"); is && ownerRepo().MatchString(at) {
		return at
	}
	return ""
}

// files makes the files, and refuses to write any that is not valid.
func (w *world) files(r Request, set *Set) error {
	release := w.Write()
	if _, err := plan.ParseConfig(release); err != nil {
		return fmt.Errorf("the release.yaml that would be written is not valid: %w", err)
	}
	profileText, policyText := draft.Fill(profileShape, w), draft.Fill(policyShape, w)
	if err := profile.Check(profileText); err != nil {
		return fmt.Errorf("the profile.yaml that would be written is not valid: %w", err)
	}
	texts := []File{{Name: plan.ConfigName, Text: release}, {Name: "profile.yaml", Text: profileText}, {Name: "policy.yaml", Text: policyText}}
	if !w.Lab {
		texts = append(texts, File{Name: "signing_config.json", Text: []byte(signingConfig)})
	}
	if r.GitHub != "" && r.Workflows != nil {
		written := r.Workflows(r.GitHub)
		for _, path := range slices.Sorted(maps.Keys(written)) {
			texts = append(texts, File{Name: path, Text: []byte(written[path])})
		}
	}
	for _, f := range texts {
		if err := set.add(f); err != nil {
			return err
		}
	}
	return set.ignore(append([]string{"/.waybill/"}, w.ignored...))
}
