package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/google/rpmpack"
	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/files"
)

// Tags of the header: https://github.com/rpm-software-management/rpm/blob/rpm-4.18.0-release/lib/rpmtag.h.
const (
	tagChangelogTime = 1080
	tagChangelogName = 1081
	tagChangelogText = 1082
	tagDirNames      = 1118
)

// Flags of a dependency, in lib/rpmds.h of the same release: it must be there when these scriptlets run. rpm keeps
// such a dependency only for the transaction, so the plain one is written, too.
const (
	atPost   = 1 << 10
	atPreun  = 1 << 11
	atPostun = 1 << 12
)

var (
	architectures = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}
	fileTypes     = map[string]rpmpack.FileType{
		files.TypeFile:            rpmpack.GenericFile,
		files.TypeConfigNoReplace: rpmpack.ConfigFile | rpmpack.NoReplaceFile,
		files.TypeRPMDoc:          rpmpack.DocFile,
		files.TypeRPMLicense:      rpmpack.LicenceFile,
	}
)

// writeRPM writes what nfpm would, but for the names in the payload and the dependencies of the scriptlets.
func writeRPM(info *nfpm.Info, w io.Writer) error {
	if info.RPM.Signature.KeyFile != "" {
		return errors.New("rpm.signature is not read: sign the RPM with rpmsign --addsign")
	}
	if err := nfpm.PrepareForPackager(info, "rpm"); err != nil {
		return err
	}
	r, err := rpmpack.NewRPM(rpmpack.RPMMetaData{
		Name: info.Name, Version: info.Version, Release: "1", Epoch: rpmpack.NoEpoch, Arch: architectures[info.Arch], OS: info.Platform,
		Summary: info.RPM.Summary, Description: info.Description, Group: info.RPM.Group, Licence: info.License,
		Packager: info.Maintainer, URL: info.Homepage, BuildHost: info.RPM.BuildHost, BuildTime: info.MTime,
		Compressor: info.RPM.Compression, Requires: requires(info.Depends, info.Version),
	})
	if err != nil {
		return err
	}
	if err := addFiles(r, info); err != nil {
		return err
	}
	for file, add := range map[string]func(string){
		info.Scripts.PostInstall: r.AddPostin, info.Scripts.PreRemove: r.AddPreun, info.Scripts.PostRemove: r.AddPostun,
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		add(string(text))
	}
	if err := addChangelog(r, info); err != nil {
		return err
	}
	return r.Write(w)
}

// requires returns the dependencies, each for the program and for the scriptlets, and the features of rpm that rpmbuild
// would name for such a package.
func requires(names []string, version string) (all rpmpack.Relations) {
	for _, name := range names {
		all = append(all, &rpmpack.Relation{Name: name}, &rpmpack.Relation{Name: name, Sense: atPost | atPreun | atPostun})
	}
	features := [][2]string{
		{"CompressedFileNames", "3.0.4-1"}, {"FileDigests", "4.6.0-1"}, {"PayloadFilesHavePrefix", "4.0-1"}, {"PayloadIsXz", "5.2-1"},
	}
	if strings.Contains(version, "~") {
		features = append(features, [2]string{"TildeInVersions", "4.10.0-1"})
	}
	for _, f := range features {
		all = append(all, &rpmpack.Relation{
			Name: "rpmlib(" + f[0] + ")", Version: f[1], Sense: rpmpack.SenseRPMLIB | rpmpack.SenseLess | rpmpack.SenseEqual,
		})
	}
	return all
}

// addFiles adds the files by the names that the payload has, ./etc/…, and the directories by those that the header has,
// /etc/…: rpm installs by the header. rpmpack writes both from one name, in the order of the names.
func addFiles(r *rpmpack.RPM, info *nfpm.Info) error {
	var names []string
	for _, c := range info.Contents {
		if c.Type == files.TypeImplicitDir {
			continue // of another package
		}
		f := rpmpack.RPMFile{
			Name: "." + path.Clean(c.Destination), Mode: uint(c.FileInfo.Mode.Perm()),
			Owner: c.FileInfo.Owner, Group: c.FileInfo.Group, MTime: uint32(c.FileInfo.MTime.Unix()),
		}
		if c.Type == files.TypeDir {
			f.Mode, f.MTime = uint(c.Mode().Perm())|0o40000, uint32(info.MTime.Unix())
		} else {
			var known bool
			if f.Type, known = fileTypes[c.Type]; !known {
				return fmt.Errorf("%s has the type %q, which pack does not write", c.Destination, c.Type)
			}
			var err error
			if f.Body, err = os.ReadFile(c.Source); err != nil {
				return err
			}
		}
		r.AddFile(f)
		names = append(names, f.Name)
	}
	slices.Sort(names)
	var dirs []string
	for _, name := range names {
		if dir := path.Dir(name[1:]) + "/"; !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	r.AddCustomTag(tagDirNames, rpmpack.EntryStringSlice(dirs))
	return nil
}

func addChangelog(r *rpmpack.RPM, info *nfpm.Info) error {
	log, err := info.GetChangeLog()
	if err != nil {
		return err
	}
	var times []uint32
	var names, texts []string
	for _, release := range log.Entries {
		var notes []string
		for _, change := range release.Changes {
			notes = append(notes, "- "+strings.TrimSpace(change.Note))
		}
		times = append(times, uint32(release.Date.Unix()))
		names = append(names, release.Packager+" - "+release.Semver)
		texts = append(texts, strings.Join(notes, "\n"))
	}
	r.AddCustomTag(tagChangelogTime, rpmpack.EntryUint32(times))
	r.AddCustomTag(tagChangelogName, rpmpack.EntryStringSlice(names))
	r.AddCustomTag(tagChangelogText, rpmpack.EntryStringSlice(texts))
	return nil
}
