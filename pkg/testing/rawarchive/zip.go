package rawarchive

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
)

// Fields are what a local or a central header of a zip archive says.
type Fields struct {
	Name, Extra          string
	Version, Flags       uint16
	Method               uint16
	Sum                  uint32
	Packed, Size, Offset uint32
	Attributes           uint32
	System               byte // that wrote the entry; Unix is 3, in place of 0 too, and FAT is 255
}

// Member is an entry of a zip archive: what stands at it, what the directory
// says of it, and what lies between and behind.
type Member struct {
	Local, Central Fields
	Body           []byte // as it is compressed
	Behind         []byte // what follows the body
	Before         []byte // what lies before the entry
	Unlisted       bool   // the directory is silent about it
}

// Packed is an honest entry, compressed if that is asked.
func Packed(name, content string, compress bool) Member {
	m := Member{Body: []byte(content)}
	f := Fields{Name: name, Version: 20, Sum: crc32.ChecksumIEEE([]byte(content)), Size: uint32(len(content))}
	if compress {
		f.Method = 8
		var b bytes.Buffer
		w, _ := flate.NewWriter(&b, flate.BestCompression) // fails for an unknown level only
		_, _ = w.Write([]byte(content))
		_ = w.Close()
		m.Body = b.Bytes()
	}
	f.Packed = uint32(len(m.Body))
	m.Local, m.Central = f, f
	return m
}

// Streamed is the entry with its sizes behind it.
func (m Member) Streamed() Member {
	m.Behind = binary.LittleEndian.AppendUint32([]byte("PK\x07\x08"), m.Local.Sum)
	m.Behind = binary.LittleEndian.AppendUint32(m.Behind, m.Local.Packed)
	m.Behind = binary.LittleEndian.AppendUint32(m.Behind, m.Local.Size)
	m.Local.Flags |= 8
	m.Central.Flags |= 8
	m.Local.Sum, m.Local.Packed, m.Local.Size = 0, 0, 0
	return m
}

// shared are the fields that both headers have, in their order.
func (f Fields) shared() []byte {
	le := binary.LittleEndian
	b := le.AppendUint16(nil, f.Version)
	b = le.AppendUint16(b, f.Flags)
	b = le.AppendUint16(b, f.Method)
	b = le.AppendUint32(b, 0x58a10000) // a day and an hour
	b = le.AppendUint32(b, f.Sum)
	b = le.AppendUint32(b, f.Packed)
	b = le.AppendUint32(b, f.Size)
	b = le.AppendUint16(b, uint16(len(f.Name)))
	return le.AppendUint16(b, uint16(len(f.Extra)))
}

// End is the end record of a zip archive.
type End struct {
	Entries, EntriesHere uint16
	Size, At             uint32
	Comment              string
}

// Bytes is the end as it is written.
func (e End) Bytes() []byte {
	le := binary.LittleEndian
	b := append([]byte("PK\x05\x06"), 0, 0, 0, 0)
	b = le.AppendUint16(b, e.EntriesHere)
	b = le.AppendUint16(b, e.Entries)
	b = le.AppendUint32(b, e.Size)
	b = le.AppendUint32(b, e.At)
	b = le.AppendUint16(b, uint16(len(e.Comment)))
	return append(b, e.Comment...)
}

// Zip is an archive of entries. Offsets are added to those that the entries
// have, and edit may change the end.
func Zip(edit func(*End), members ...Member) []byte {
	le := binary.LittleEndian
	var all, directory []byte
	end := End{}
	for _, m := range members {
		all = append(all, m.Before...)
		m.Central.Offset += uint32(len(all))
		all = append(append(all, "PK\x03\x04"...), m.Local.shared()...)
		all = append(append(append(all, m.Local.Name...), m.Local.Extra...), m.Body...)
		all = append(all, m.Behind...)
		if m.Unlisted {
			continue
		}
		system := m.Central.System
		switch system {
		case 0:
			system = 3
		case 255:
			system = 0
		}
		directory = append(append(directory, "PK\x01\x02\x14"...), system)
		directory = append(directory, m.Central.shared()...)
		directory = append(directory, make([]byte, 6)...) // no comment, of the first part, of no attributes of its own
		directory = le.AppendUint32(directory, m.Central.Attributes)
		directory = le.AppendUint32(directory, m.Central.Offset)
		directory = append(append(directory, m.Central.Name...), m.Central.Extra...)
		end.Entries++
	}
	end.EntriesHere, end.Size, end.At = end.Entries, uint32(len(directory)), uint32(len(all))
	if edit != nil {
		edit(&end)
	}
	return append(append(all, directory...), end.Bytes()...)
}
