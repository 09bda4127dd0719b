<?php

declare(strict_types=1);

namespace Pillion\Exception;

/** The MCP server responded with a JSON-RPC error; `getCode()` is `$rpcCode`. */
class JsonRpcException extends PillionException
{
    public int $rpcCode = -1;
    /** The `data` member of the JSON-RPC error. */
    public mixed $data = null;
}
