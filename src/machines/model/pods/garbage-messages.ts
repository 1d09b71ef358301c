/** Messages to and from the garbage collectors `containerGC` and `imageGC`. */

/** A garbage collector has lost the pods' facts and needs them again. */
export interface GarbageWanted {
  readonly type: 'garbage.wanted';
}

/** The node is short of disk: everything unused is removed now. Answered by `garbage.purged`. */
export interface GarbagePurge {
  readonly type: 'garbage.purge';
}

export interface GarbagePurged {
  readonly type: 'garbage.purged';
}
