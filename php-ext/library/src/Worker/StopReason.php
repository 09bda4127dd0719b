<?php

declare(strict_types=1);

namespace Pillion\Worker;

/** The reason why {@see \Pillion\Worker::run()} returned. */
enum StopReason: string
{
    /** The maximum number of calls was reached. */
    case Calls = 'calls';
    /** The maximum time was reached. */
    case Time = 'time';
    /** The process used more memory than allowed. */
    case Memory = 'memory';
    /** SIGTERM or SIGINT arrived. */
    case Signal = 'signal';
    /** {@see \Pillion\Worker::stop()} was called. */
    case Requested = 'requested';
}
