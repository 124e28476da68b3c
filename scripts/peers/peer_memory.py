"""Tensors in memory of a GPU that belongs to attnlab's process, which offers it
(harness/run/peer.h): both sides save a copy through the host."""
import contextlib
import ctypes

import torch

TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
         "F8_E4M3": torch.float8_e4m3fn}
LAZY_PEER_ACCESS = 1  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, the only flag that there is


class NoAccess(Exception):
    """The driver does not open the memory: containers and some virtual machines forbid it."""


class IpcHandle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_ubyte * 64)]


class Bytes:
    """Describes memory of a GPU as torch.as_tensor() takes it."""

    def __init__(self, address, count):
        self.__cuda_array_interface__ = {"shape": (count,), "typestr": "|u1",
                                         "data": (address, False), "version": 3}


def load_driver():
    driver = ctypes.CDLL("libcuda.so.1")
    driver.cuIpcOpenMemHandle_v2.argtypes = [ctypes.POINTER(ctypes.c_uint64), IpcHandle,
                                             ctypes.c_uint]
    driver.cuIpcCloseMemHandle.argtypes = [ctypes.c_uint64]
    return driver


@contextlib.contextmanager
def opened(entries, device):
    """Gives {name: tensor} for {name: {"dtype", "shape", "handle", "offset"}}, within the block."""
    torch.cuda.synchronize(device)  # the context of the device is then this thread's
    driver, addresses = load_driver(), {}
    try:
        for entry in entries.values():
            if entry["handle"] in addresses:
                continue
            handle, address = IpcHandle(), ctypes.c_uint64()
            handle.reserved[:] = bytes.fromhex(entry["handle"])
            error = driver.cuIpcOpenMemHandle_v2(ctypes.byref(address), handle, LAZY_PEER_ACCESS)
            if error != 0:
                raise NoAccess(f"cuIpcOpenMemHandle says {error}")
            addresses[entry["handle"]] = address.value
        yield {name: view(addresses[entry["handle"]], entry, device)
               for name, entry in entries.items()}
        torch.cuda.synchronize(device)
    finally:
        for address in addresses.values():
            driver.cuIpcCloseMemHandle(address)


def view(address, entry, device):
    kind = TYPES[entry["dtype"]]
    count = kind.itemsize
    for size in entry["shape"]:
        count *= size
    memory = torch.as_tensor(Bytes(address + entry["offset"], count), device=device)
    return memory.view(kind).view(entry["shape"])


def hand_over(tensors, entries, device):
    """Copies {name: tensor}, of any strides, to the entries of the same names. An lse that nobody
    made is left out."""
    with opened(entries, device) as there:
        if there.keys() - {"lse"} != tensors.keys() - {"lse"} or tensors.keys() - there.keys():
            raise ValueError(f"wanted are {', '.join(there)}, made were {', '.join(tensors)}")
        for name, tensor in tensors.items():
            if there[name].dtype != tensor.dtype or there[name].shape != tensor.shape:
                raise ValueError(f"{name} is {tensor.dtype} {list(tensor.shape)}, wanted is "
                                 f"{there[name].dtype} {list(there[name].shape)}")
            there[name].copy_(tensor.detach())
