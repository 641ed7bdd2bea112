package promoterfile

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxFaults is how many faults of one file are listed; the others are counted.
const maxFaults = 1000

// faults collects everything that is wrong with one file. YAML that no reader
// would understand alike is the exception: after it, the rest of the file is not
// read.
type faults struct {
	file string
	all  []error
	more int
}

// add keeps an error, if it is one, with the file and line as its subject. Line
// 0 stands for the whole file.
func (f *faults) add(line int, err error) {
	if err == nil {
		return
	}
	if len(f.all) == maxFaults {
		f.more++
		return
	}
	if form, is := errors.AsType[*strictyaml.Error](err); is {
		line = form.Line
	}
	var coded *verdict.Error
	if !errors.As(err, &coded) {
		coded = verdict.Wrap(verdict.ConfigParse, "", err)
	}
	finding := coded.Finding
	if finding.Subject != "" {
		finding.Message = finding.Subject + ": " + finding.Message
	}
	finding.Subject = f.at(line)
	f.all = append(f.all, &verdict.Error{Finding: finding, Cause: err})
}

func (f *faults) refuse(line int, format string, args ...any) {
	f.add(line, verdict.Refuse(verdict.ConfigParse, "", format, args...))
}

// at names a line of the file.
func (f *faults) at(line int) string {
	if line == 0 {
		return f.file
	}
	return fmt.Sprintf("%s:%d", f.file, line)
}

// err is all faults, or nil.
func (f *faults) err() error {
	if f.more > 0 {
		return errors.Join(append(f.all, fmt.Errorf("%s: and %d more", f.file, f.more))...)
	}
	return errors.Join(f.all...)
}

// lineIn is the line of a value in a section, or 0.
func lineIn(section *yaml.Node, value string) int {
	for _, n := range section.Content {
		if n.Kind == yaml.ScalarNode && n.Value == value {
			return n.Line
		}
		if line := lineIn(n, value); line != 0 {
			return line
		}
	}
	return 0
}

// BadList is a list that cannot be used, so nothing that it lists is promoted.
type BadList struct {
	// Manifest is the name of the manifest that the list belongs to.
	Manifest string
	// Names are the images or files that it lists, at the source, as far as it can
	// be read.
	Names []string
	// Err is everything that is wrong with it.
	Err error
}

// LeftOut refuses what a plan is without: each list, why, and each image or file
// that it lists. Without lists it is nil.
func LeftOut(lists []BadList) error {
	if len(lists) == 0 {
		return nil
	}
	var all []error
	names := 0
	for _, l := range lists {
		names += len(l.Names)
		all = append(all, l.Err)
		if len(l.Names) == 0 {
			l.Names = []string{"everything; its names cannot be read"}
		}
		for _, name := range l.Names {
			all = append(all, fmt.Errorf("left out of %s: %s", l.Manifest, name))
		}
	}
	summary := verdict.Refuse(verdict.PlanMissing, "plan", "it lacks what %s with faults would promote, %s", plural.Of(len(lists), "list"), plural.Of(names, "name")).
		Advise("correct the lists at the lines named, and plan again")
	return errors.Join(summary, errors.Join(all...))
}

// reading is a manifest of one kind, and what is wrong with its two parts.
type reading[M any] struct {
	manifest    M
	name        string
	source      string // prefix of the names at the source
	where, what faults // the places, and the list
	// listed is every name in the list, valid or not.
	listed map[string]listed
}

// listed is where a list first names an image or a file, and the digest of the
// file; zero if it is faulty.
type listed struct {
	digest digest.Digest
	line   int
	at     string
}

func newReading[M any](name, where, what string) reading[M] {
	return reading[M]{name: name, where: faults{file: where}, what: faults{file: what}, listed: map[string]listed{}}
}

func (r *reading[M]) err() error { return errors.Join(r.where.err(), r.what.err()) }

// result is the manifest, or all faults of its files.
func (r *reading[M]) result() (m M, err error) {
	if err := r.err(); err != nil {
		return m, err
	}
	return r.manifest, nil
}

// divide separates the manifests that can be used from those with a bad list. If
// the places of any of them cannot be read, nobody knows whose images the others
// name: then nothing can be used, and all faults are the error.
func divide[M any](all []reading[M]) (good []M, bad []BadList, err error) {
	readable := true
	for _, r := range all {
		err = errors.Join(err, r.err())
		readable = readable && len(r.where.all) == 0
		if what := r.what.err(); what != nil {
			names := slice.Map(slices.Sorted(maps.Keys(r.listed)), func(name string) string { return r.source + name })
			bad = append(bad, BadList{Manifest: r.name, Err: what, Names: names})
		} else {
			good = append(good, r.manifest)
		}
	}
	if !readable {
		return nil, nil, err
	}
	return good, bad, nil
}
