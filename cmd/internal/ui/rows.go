package ui

// podRows are the rows of pods, in the table's order; when says of each when it would go, or nothing.
func podRows(pods []podView, when func(*podView) string, word func(*podView) (string, Colour)) (rows []Row) {
	for _, group := range tableOrder {
		for i := range pods {
			pod := &pods[i]
			if verdictOf(pod) != group {
				continue
			}
			r := Row{Title: pod.title(), Name: podName(pod.Namespace, pod.Name), Bytes: total(pod.Residue).Bytes, Unread: pod.evidence.Unread}
			r.Word, r.Colour = word(pod)
			for _, why := range pod.Reasons {
				r.Reasons = append(r.Reasons, string(why))
			}
			if pod.Parked && pod.Outcome != outcomeRemoved {
				r.Notes = []string{"parked"}
			}
			if pod.evidence.RuntimeOnly {
				r.Notes = []string{"only in the runtime"}
			}
			if text := when(pod); text != "" {
				r.Notes = append(r.Notes, text)
			}
			rows = append(rows, r)
		}
	}
	return rows
}
