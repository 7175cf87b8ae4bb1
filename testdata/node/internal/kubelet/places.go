package kubelet

// place is where a kubelet's source prints a line.
type place struct {
	file string
	line int
}

// places are those of one version. They were read in 1.19.5, 1.28.15, 1.33.13 and 1.37.2.
type places struct {
	mainLoop, report, each, skipped, removing       place
	checkFailed, mounted, cleanupFailed, reducing   place
	cleanedVolume, cleanedSubpath, cleanedDir       place
	subdirFailed, dirFailed                         place
	noVolumes, volumesUnread, subpathsUnread        place
	operation, unmountFailed, mountFailed, listPods place
}

func volumesGo(line int) place { return place{"kubelet/kubelet_volumes.go", line} }
func podsGo(line int) place    { return place{"kubelet/kubelet_pods.go", line} }
func gettersGo(line int) place { return place{"kubelet/kubelet_getters.go", line} }

var placesOf = map[string]places{
	"1.19": {
		mainLoop: place{"kubelet/kubelet.go", 1741}, report: volumesGo(154), each: volumesGo(156), skipped: volumesGo(120), removing: volumesGo(145),
		checkFailed: volumesGo(65), mounted: volumesGo(69), cleanupFailed: podsGo(1125), reducing: podsGo(1865), dirFailed: volumesGo(147),
		noVolumes: gettersGo(300), volumesUnread: gettersGo(306), operation: place{"nestedpendingoperations/nestedpendingoperations.go", 301},
		unmountFailed: place{"reconciler/reconciler.go", 193}, mountFailed: place{"mount/mount_linux.go", 150},
	},
	"1.28": since128(places{
		mainLoop: place{"kubelet/kubelet.go", 2321}, cleanupFailed: podsGo(1126), reducing: podsGo(2299), volumesUnread: gettersGo(320), subpathsUnread: gettersGo(389),
		unmountFailed: place{"reconciler/reconciler_common.go", 169}, mountFailed: place{"mount-utils/mount_linux.go", 230},
	}, 0),
	"1.33": since128(places{
		mainLoop: place{"kubelet/kubelet.go", 2436}, cleanupFailed: podsGo(1240), reducing: podsGo(2468), volumesUnread: gettersGo(366), subpathsUnread: gettersGo(435),
		unmountFailed: place{"reconciler/reconciler_common.go", 159}, mountFailed: place{"mount-utils/mount_linux.go", 272},
	}, 0),
	"1.37": since128(places{
		mainLoop: place{"kubelet/kubelet.go", 2673}, cleanupFailed: podsGo(1333), reducing: podsGo(2910), volumesUnread: gettersGo(354), subpathsUnread: gettersGo(423),
		unmountFailed: place{"reconciler/reconciler_common.go", 160}, mountFailed: place{"mount-utils/mount_linux.go", 271}, listPods: place{"pods/server.go", 231},
	}, -2),
}

// since128 adds the places in kubelet_volumes.go of 1.28 and 1.33, which moved together later.
func since128(p places, moved int) places {
	for at, line := range map[*place]int{
		&p.checkFailed: 89, &p.mounted: 93, &p.cleanedVolume: 135, &p.cleanedSubpath: 152, &p.cleanedDir: 163, &p.skipped: 202,
		&p.subdirFailed: 244, &p.removing: 250, &p.dirFailed: 253, &p.report: 263, &p.each: 265,
	} {
		*at = volumesGo(line + moved)
	}
	p.operation = place{"nestedpendingoperations/nestedpendingoperations.go", 348}
	return p
}
