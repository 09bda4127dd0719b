<?php

declare(strict_types=1);

namespace Pillion\Worker;

/** Why {@see \Pillion\Worker::run()} has returned. */
enum StopReason: string
{
    /** It has made as many calls as it was to make. */
    case Calls = 'calls';
    /** Its time was over. */
    case Time = 'time';
    /** The process had grown too large. */
    case Memory = 'memory';
    /** SIGTERM or SIGINT. */
    case Signal = 'signal';
    /** {@see \Pillion\Worker::stop()} was called. */
    case Asked = 'asked';
}
