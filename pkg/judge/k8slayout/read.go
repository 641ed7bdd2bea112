package k8slayout

import (
	"strings"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// ParseSums reads SHA256SUMS or SHA512SUMS. Their names are relative; in older
// releases they were absolute, below the build directory.
func ParseSums(name string, raw []byte, v version.Version) (Witness, error) {
	w := Witness{name: name, covers: inSums}
	algorithm := digest.SHA256
	if name == SHA512Sums {
		algorithm = digest.SHA512
	}
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		sum, file, found := strings.Cut(line, " ")
		d, err := digest.ParseHex(algorithm, sum)
		if !found || err != nil {
			return Witness{}, verdict.Refuse(verdict.Conflict, name, "%.200q is not a checksum line", line)
		}
		file = strings.TrimPrefix(strings.TrimLeft(file, " *"), "./")
		if strings.HasPrefix(file, "/") {
			if _, file, found = strings.Cut(file, "/gcs-stage/"+v.String()+"/"); !found {
				return Witness{}, verdict.Refuse(verdict.Version, name, "%.200q is not a file of the build of %s", line, v)
			}
		}
		if err := w.claim(file, d.Set()); err != nil {
			return Witness{}, err
		}
	}
	return w, nil
}

// ReadProvenance reads the subjects of provenance, whether of a release or of a
// stage. The subjects of a stage are below the directory of the version, except
// for image archives and the source, which are not published there.
func ReadProvenance(name string, said intoto.Statement, v version.Version) (Witness, error) {
	w := Witness{name: name, covers: inSBOM}
	for _, s := range said.Subjects() {
		file, published, err := within(name, s.Name, v)
		if err != nil {
			return Witness{}, err
		}
		if published {
			if err := w.claim(file, s.Digests); err != nil {
				return Witness{}, err
			}
		}
	}
	return w, nil
}

// within returns the name of a subject relative to the release. A subject of
// another version refuses the document: it is the provenance of another
// release.
func within(witness, subject string, v version.Version) (file string, published bool, err error) {
	rest, bucket := strings.CutPrefix(subject, "gs://")
	_, rest, path := strings.Cut(rest, "/")
	other := func() error {
		return &verdict.Error{Finding: verdict.Find(verdict.Version, witness, "subject %.300q is of another release", subject).Differ(v.String(), "none, or another")}
	}
	if !bucket || !path {
		return "", false, verdict.Refuse(verdict.Path, witness, "subject %.300q is not a file in a bucket", subject)
	}
	if in, ok := strings.CutPrefix(rest, "release/"); ok {
		if file, ok = strings.CutPrefix(in, v.String()+"/"); !ok {
			return "", false, other()
		}
		return file, true, nil
	}
	in, staged := strings.CutPrefix(rest, "stage/")
	if !staged {
		return "", false, verdict.Refuse(verdict.Path, witness, "subject %.300q is below neither stage/ nor release/", subject)
	}
	if _, below, found := strings.Cut(in, "/gcs-stage/"); found {
		if file, found = strings.CutPrefix(below, v.String()+"/"); !found {
			return "", false, other()
		}
		return file, true, nil
	}
	return "", false, nil
}
