package bucket

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// store keeps objects: <dir>/<bucket>/<hash of the name>.json describes one,
// and <dir>/<bucket>/<generation>.data is its bytes. A description is replaced
// in one rename, so a reader finds an old object or a new one, never a mixture.
type store struct {
	dir string

	mu      sync.RWMutex // owns what follows, and orders writes
	buckets map[string]*contents
	last    int64 // the newest generation
}

// contents indexes one bucket.
type contents struct {
	objects map[string]*object
	names   []string // sorted, as both APIs list in order of bytes
}

var bucketPattern = regexp.MustCompile(`\A[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]\z`)

func openStore(dir string) (*store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening the buckets: %w", err)
	}
	s := &store{dir: dir, buckets: map[string]*contents{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the buckets: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() { // bytes of an upload that a killed process left
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return nil, fmt.Errorf("opening the buckets: %w", err)
			}
			continue
		}
		if err := s.load(e.Name()); err != nil {
			return nil, fmt.Errorf("opening bucket %q: %w", e.Name(), err)
		}
	}
	return s, nil
}

func (s *store) load(bucket string) error {
	files, err := filepath.Glob(filepath.Join(s.dir, bucket, "*.json"))
	if err != nil {
		return err
	}
	c := &contents{objects: map[string]*object{}}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		var o object
		if err := json.Unmarshal(b, &o); err != nil {
			return fmt.Errorf("reading %q: %w", f, err)
		}
		c.objects[o.Name] = &o
		c.names = append(c.names, o.Name)
		s.last = max(s.last, o.Generation)
	}
	slices.Sort(c.names)
	s.buckets[bucket] = c
	return nil
}

func (s *store) make(bucket string) error {
	if !bucketPattern.MatchString(bucket) || slices.Contains([]string{"storage", "upload", "download"}, bucket) {
		return fmt.Errorf("making a bucket: invalid name %q", bucket)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.buckets[bucket] != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(s.dir, bucket), 0o700); err != nil {
		return fmt.Errorf("making a bucket: %w", err)
	}
	s.buckets[bucket] = &contents{objects: map[string]*object{}}
	return nil
}

func (s *store) metaPath(bucket, name string) string {
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(s.dir, bucket, hex.EncodeToString(sum[:])+".json")
}

func (s *store) dataPath(bucket string, o *object) string {
	return filepath.Join(s.dir, bucket, o.generation()+".data")
}

// find returns the object; s.mu is held.
func (s *store) find(bucket, name string) (*object, error) {
	c := s.buckets[bucket]
	if c == nil {
		return nil, errNoBucket
	}
	if o := c.objects[name]; o != nil {
		return o, nil
	}
	return nil, errNoObject
}

func (s *store) stat(bucket, name string) (*object, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.find(bucket, name)
}

// open returns the object with its bytes, which stay readable when the object
// is replaced or deleted meanwhile.
func (s *store) open(bucket, name string) (*object, *os.File, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	o, err := s.find(bucket, name)
	if err != nil {
		return nil, nil, err
	}
	f, err := os.Open(s.dataPath(bucket, o))
	return o, f, err
}

// put makes the staged bytes the object, or discards them. o is complete but
// for its generation and time.
func (s *store) put(bucket string, o *object, st *staged, c conditions) (*object, error) {
	if err := s.commit(bucket, o, st, c); err != nil {
		return nil, errors.Join(err, st.discard())
	}
	return o, st.file.Close()
}

func (s *store) commit(bucket string, o *object, st *staged, c conditions) error {
	if o.Name == "" || len(o.Name) > 1024 || !utf8.ValidString(o.Name) {
		return errBadRequest
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, err := s.find(bucket, o.Name)
	if errors.Is(err, errNoBucket) {
		return err
	}
	if err := c.check(old); err != nil {
		return err
	}
	o.Updated = time.Now().UTC()
	o.Generation = max(s.last+1, o.Updated.UnixMicro())
	meta, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("storing %q: %w", o.Name, err)
	}
	if err := os.Rename(st.file.Name(), s.dataPath(bucket, o)); err != nil {
		return fmt.Errorf("storing %q: %w", o.Name, err)
	}
	path := s.metaPath(bucket, o.Name)
	if err := errors.Join(os.WriteFile(path+".tmp", meta, 0o600), os.Rename(path+".tmp", path)); err != nil {
		return fmt.Errorf("storing %q: %w", o.Name, err)
	}
	s.last = o.Generation
	s.buckets[bucket].add(o)
	if old != nil {
		return os.Remove(s.dataPath(bucket, old))
	}
	return nil
}

func (c *contents) add(o *object) {
	if i, found := slices.BinarySearch(c.names, o.Name); !found {
		c.names = slices.Insert(c.names, i, o.Name)
	}
	c.objects[o.Name] = o
}

func (s *store) delete(bucket, name string, cond conditions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.find(bucket, name)
	if err != nil {
		return err
	}
	if err := cond.check(o); err != nil {
		return err
	}
	if err := os.Remove(s.metaPath(bucket, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("deleting %q: %w", name, err)
	}
	c := s.buckets[bucket]
	delete(c.objects, name)
	if i, found := slices.BinarySearch(c.names, name); found {
		c.names = slices.Delete(c.names, i, i+1)
	}
	return os.Remove(s.dataPath(bucket, o))
}

// query asks for a page of a listing.
type query struct {
	prefix, delimiter string
	after             string // the last name or common prefix of the page before
	from              string // names before this are not listed
	max               int
}

// page is one page of a listing; next is empty on the last.
type page struct {
	objects  []*object
	prefixes []string // common prefixes, each ending in the delimiter
	next     string
}

func (s *store) list(bucket string, q query) (page, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c := s.buckets[bucket]
	if c == nil {
		return page{}, errNoBucket
	}
	var p page
	start, _ := slices.BinarySearch(c.names, max(q.prefix, q.from, q.after))
	last := q.after
	for _, name := range c.names[start:] {
		if !strings.HasPrefix(name, q.prefix) {
			break
		}
		common := commonPrefix(name, q)
		// The page before ended with this name, or with its common prefix.
		if name == q.after || common != "" && common == last {
			continue
		}
		if len(p.objects)+len(p.prefixes) == q.max {
			p.next = last
			break
		}
		if common != "" {
			p.prefixes = append(p.prefixes, common)
			last = common
		} else {
			p.objects = append(p.objects, c.objects[name])
			last = name
		}
	}
	return p, nil
}

// commonPrefix is the part of name up to the delimiter after the prefix.
func commonPrefix(name string, q query) string {
	if q.delimiter == "" {
		return ""
	}
	i := strings.Index(name[len(q.prefix):], q.delimiter)
	if i < 0 {
		return ""
	}
	return name[:len(q.prefix)+i+len(q.delimiter)]
}

// names are the buckets' names in order.
func (s *store) names() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []string
	for name := range s.buckets {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
