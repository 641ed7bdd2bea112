// Package buildrecord reads what a build service recorded of a finished build,
// and writes SLSA provenance of it, which attestations/observed-build/v1 describes.
//
//	record, err := buildrecord.Parse(buildrecord.Build{Service: "gcb", Name: name}, raw)
//	statement, err := record.Statement(buildrecord.Observed)
//
// services.json says which field of the service's answers each fact is read from,
// what the service found out itself ("seen"), and what it repeats of the user's
// configuration ("told"). A record is parsed, not verified.
//
// Other projects should not import this package: it changes without notice.
package buildrecord

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// The build type of observed builds, and how the builder ids of observers begin:
// Observed if the API was read, Recorded if the record came in a file, which
// anybody may have written. The service follows.
const (
	BuildType = "https://github.com/waybill-release/waybill/attestations/observed-build/v1"
	Observed  = "https://github.com/waybill-release/waybill/attestations/builder/v1#observed-"
	Recorded  = "https://github.com/waybill-release/waybill/attestations/builder/v1#recorded-"
)

// MostLevel is the highest Build level that provenance can show, by the builder
// id and the build type that it names. An observer sees what the service says,
// but not whether steps were isolated.
func MostLevel(builder, buildType string) int {
	switch {
	case strings.HasPrefix(builder, Recorded):
		return 1
	case strings.HasPrefix(builder, Observed), buildType == BuildType:
		return 2
	}
	return 4
}

// Build names one build of a service, gcb, prow or github, in the form that
// services.json has for it. Below is removed from the beginning of the names of
// outputs.
type Build struct{ Service, Name, Below string }

// Record is the record of a finished and successful build.
type Record struct {
	// Unattributed has a finding for each output without SHA-256 in the record.
	Unattributed []verdict.Finding
	// Told says that the service resolved no commit: only the user's own
	// configuration names one.
	Told bool

	build             Build
	digest            digest.Digest
	run               string
	source            provenance.Source
	uploaded          []intoto.Resource // the archive of the source
	started, finished time.Time
	outputs           []intoto.Subject
	seen, told        map[string]any    // by field
	fields            map[string]string // of the other facts
}

//go:embed services.json
var servicesJSON []byte

// service says where the facts are in the record of a service. Of each list of
// templates, the first counts whose fields the record has.
type service struct {
	Name                                string // pattern of names, with owner and id of the build
	Owner, ID, Run, Started, Finished   string
	Success                             map[string]string
	Repository, Commit, Ref, Seen, Told []string
	// RefBy is the field without which the ref is the user's; empty if the service
	// always resolves it.
	RefBy                      string
	ToldRepository, ToldCommit []string // for a record that has no Commit
	Uploaded, UploadedHashes   string   // the archive of the source, and the object with its hashes
	Outputs                    []outputs
}

// wholeCommit is the id of a commit: a branch, or the beginning of an id, can
// name another commit tomorrow.
var wholeCommit = pattern.Lazy(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

type outputs struct {
	List, Name, Digest string
	DigestsByName      string // an object with the digests, in place of Digest
	Run, Made          string // in each output, the build that made it, and when
	Count              string // how long the list is
}

// MaxSize is the limit of the size of a record.
const MaxSize = 32 << 20

const unattributed = "UNATTRIBUTED_OUTPUT"

// Parse reads the record of a build. It refuses the record of another build or
// owner, of a build that failed or is running, one that lacks a part, and one
// that names no commit, or the digest of no output.
func Parse(b Build, raw []byte) (Record, error) {
	var services map[string]service
	if err := json.Unmarshal(servicesJSON, &services); err != nil {
		panic("buildrecord: services.json: " + err.Error())
	}
	s, known := services[b.Service]
	if !known {
		return Record{}, verdict.Refuse(verdict.Usage, b.Service, "unknown service, want one of %q", slices.Sorted(maps.Keys(services)))
	}
	var all tree
	err := strictjson.Unmarshal(raw, &json.RawMessage{}, strictjson.MaxSize(MaxSize))
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber() // ids are numbers, and are compared as text
		err = d.Decode(&all.value)
	}
	if err != nil {
		return Record{}, verdict.Wrap(verdict.StatementParse, b.Name, fmt.Errorf("reading the record: %w", err))
	}
	r := Record{build: b, digest: digest.Of(digest.SHA256, raw), fields: map[string]string{}, seen: map[string]any{}, told: map[string]any{}}
	id, err := r.identify(s, all)
	if err == nil {
		err = r.describe(s, all)
	}
	for i := 0; err == nil && i < len(s.Outputs); i++ {
		err = r.collect(s.Outputs[i], all, id)
	}
	if err == nil && len(r.outputs) == 0 {
		err = verdict.Refuse(unattributed, b.Name, "the record names the digest of no output, so nothing can be attested; outputs without a digest: %d", len(r.Unattributed))
	}
	return r, err
}

// refuse refuses the whole record.
func (r *Record) refuse(code verdict.Code, format string, args ...any) error {
	return verdict.Refuse(code, r.build.Name, format, args...).
		Advise("name the build that made the outputs, started from a commit of a repository, and read its record after it succeeded")
}

// identify refuses the record of another build, and of one without success. It
// returns the id of the build.
func (r *Record) identify(s service, all tree) (id string, err error) {
	name := regexp.MustCompile(s.Name).FindStringSubmatch(r.build.Name)
	if name == nil {
		return "", verdict.Refuse(verdict.Usage, r.build.Name, "not the name of a %s build; want the form of %s", r.build.Service, s.Name)
	}
	for i, field := range []string{s.Owner, s.ID} {
		if got := all.text(field); got != name[i+1] {
			return "", r.refuse(verdict.BuildMix, "the record is of another build: %s is %.100q, want %q", field, got, name[i+1])
		}
	}
	for _, field := range slices.Sorted(maps.Keys(s.Success)) {
		if got := all.text(field); got != s.Success[field] {
			return "", r.refuse(verdict.StepFailed, "the build failed, or has not ended: %s is %.100q, want %q", field, got, s.Success[field])
		}
	}
	return name[2], nil
}

// describe reads the source, the times, and what was seen and told.
func (r *Record) describe(s service, all tree) error {
	first := func(fact string, templates ...string) (text string) {
		for _, t := range templates {
			if text = all.fill(t); text != "" {
				r.fields[fact] = t
				break
			}
		}
		return text
	}
	if r.Told = !slices.ContainsFunc(s.Commit, func(t string) bool { return all.fill(t) != "" }); r.Told {
		s.Repository, s.Commit = s.ToldRepository, s.ToldCommit
	}
	if s.RefBy != "" && !r.Told && all.at(s.RefBy).value == nil {
		s.Ref = nil // anybody who starts a build can name a tag
	}
	r.source = provenance.Source{Repository: first("source repository", s.Repository...), Ref: first("source ref", s.Ref...), Commit: first("source commit", s.Commit...)}
	if at := all.fill(s.Uploaded); at != "" {
		hashes, _ := all.at(s.UploadedHashes).value.(map[string]any)
		archive := intoto.Resource{Name: "uploaded source", URI: at}
		if sum := (tree{hashes[at]}).at("fileHash").sha256(); !sum.IsZero() {
			archive.Digest = map[string]string{"sha256": sum.Hex()}
		}
		r.uploaded = []intoto.Resource{archive}
	}
	// The services give refs without their kind. A wrong guess accepts nothing:
	// the commit is compared with that of the release.
	if _, err := version.Parse(r.source.Ref); err == nil {
		r.source.Ref = "refs/tags/" + r.source.Ref
	} else if r.source.Ref != "" && !strings.HasPrefix(r.source.Ref, "refs/") {
		r.source.Ref = "refs/heads/" + r.source.Ref
	}
	r.run, r.started, r.finished = first("run", s.Run), all.time(s.Started), all.time(s.Finished)
	keep := func(into map[string]any, fields []string) {
		for _, field := range fields {
			if value := all.at(field).value; value != nil {
				into[field] = value
			}
		}
	}
	keep(r.seen, s.Seen)
	keep(r.told, s.Told)
	switch {
	case r.finished.IsZero() || r.run == "":
		return r.refuse(verdict.StatementParse, "the record is truncated: no %s, or no %s", s.Finished, s.Run)
	case !wholeCommit().MatchString(r.source.Commit) || r.source.Repository == "":
		return r.refuse(verdict.SourceCommit, "the record names no repository with the whole id of a commit, neither as what the service resolved nor in what the user told it")
	}
	return nil
}

// collect reads a list of outputs.
func (r *Record) collect(o outputs, all tree, id string) error {
	list, _ := all.at(o.List).value.([]any)
	if want := cmp.Or(all.text(o.Count), "0"); o.Count != "" && fmt.Sprint(len(list)) != want {
		return r.refuse(verdict.StatementParse, "the record is truncated: %s has %d entries of %.20s", o.List, len(list), want)
	}
	for i, item := range list {
		one := tree{item}
		full, _, _ := strings.Cut(one.text(o.Name), "#") // in a bucket the generation follows
		field, sum := fmt.Sprintf("%s.%d.%s", o.List, i, o.Digest), one.at(o.Digest).sha256()
		if named, is := all.at(o.DigestsByName).value.(map[string]any); is && o.DigestsByName != "" {
			field, sum = o.DigestsByName, tree{named[full]}.sha256()
		}
		why, name := "only a listing shows it: the record has no SHA-256 of it", strings.TrimPrefix(full, r.build.Below)
		if got := one.text(o.Run); o.Run != "" && got != id {
			return r.refuse(verdict.BuildMix, "%s lists an output of another build, %.100q", o.List, got)
		}
		if o.Made != "" && one.time(o.Made).Before(r.started) {
			sum, why = digest.Digest{}, "it was made before this attempt of the build began"
		}
		if sum.IsZero() {
			r.Unattributed = append(r.Unattributed, verdict.Find(unattributed, name, "not attested, %s", why))
			continue
		}
		r.outputs, r.fields["subject "+name] = append(r.outputs, intoto.Subject{Name: name, Digests: digest.Set{SHA256: sum}}), field
	}
	return nil
}

// Statement is provenance of the build. origin is [Observed] or [Recorded]. If the
// commit is only told, anybody may have written it: then the origin is Recorded.
func (r Record) Statement(origin string) (intoto.Statement, error) {
	name := "source"
	if r.Told {
		origin, name = Recorded, "told source"
	}
	uri := "git+" + strings.TrimPrefix(r.source.Repository, "git+")
	if r.source.Ref != "" {
		uri += "@" + r.source.Ref
	}
	names := make([]string, len(r.Unattributed))
	for i, f := range r.Unattributed {
		names[i] = f.Subject
	}
	used := append([]intoto.Resource{{Name: name, URI: uri, Digest: map[string]string{"gitCommit": r.source.Commit}}}, r.uploaded...)
	type object map[string]any
	return intoto.New(provenance.PredicateType, r.outputs, object{
		"buildDefinition": object{
			"buildType": BuildType, "externalParameters": object{"told": r.told}, "internalParameters": object{"seen": r.seen, "fields": r.fields, "unattributed": names},
			"resolvedDependencies": used,
		},
		"runDetails": object{
			"builder": object{"id": origin + r.build.Service}, "metadata": object{"invocationId": r.run, "startedOn": r.started, "finishedOn": r.finished},
			"byproducts": []object{{"name": "record", "digest": object{"sha256": r.digest.Hex()}}},
		},
	})
}
